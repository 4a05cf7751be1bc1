// Assembles the page: a change of the cluster or of the filters is drawn once, with the next frame.
import { html, nothing, render } from "../vendor/lit-html.js";
import { Cluster, totals } from "./cluster.js";
import { Connection } from "./connection.js";
import { node } from "./detail.js";
import { Dialog } from "./dialog.js";
import { nodeAddress } from "./address.js";
import { setIdleAfter } from "./bars.js";
import { choices, filterForm, Filters, sorted } from "./filters.js";
import { hint, Hints } from "./hints.js";
import { historyTemplate } from "./history.js";
import { Lookup } from "./lookup.js";
import { mapViewTemplate, NodeMap } from "./map.js";
import { Namespaces } from "./namespaces.js";
import { NodeList } from "./nodes.js";
import { pod } from "./pod.js";
import { decisionsTemplate, pendingTemplate, waitingCount } from "./pods.js";
import { QueueTable } from "./queue.js";
import { RunningPods } from "./running.js";
import { Stream } from "./stream.js";
import { ago, atSecond, bytes, count, freeText, memory, percent, plural, tenth, unaccountedText, zone } from "./text.js";
import { subjectOf, subjectSwitch, TITLES } from "./views.js";

const at = (id) => document.getElementById(id);
const ALL = ["nodes", "pending", "decisions", "samples"];

const cluster = new Cluster();
const filters = Filters.fromAddress();
const dialog = new Dialog(at("detail"), { node, pod });
const map = new NodeMap(at("map"), at("map-legend"), {
  onNode: (name) => (subjectOf(filters.view) === "nodes" ? list.go(name) : dialog.open(nodeAddress(name))),
  onGroup: (group, chosen) => change(group.by, chosen ? group.key : ""),
  onTrouble: (group) => {
    filters.troubled = true;
    change(group.by, group.key || filters[group.by]);
  },
});
const list = new NodeList(at("nodes"), (name) => dialog.open(nodeAddress(name)));
const running = new RunningPods(at("running"), change);
const queue = new QueueTable(at("queue"));
const namespaces = new Namespaces(at("namespaces"), changeAll, (namespace) => {
  changeAll({ namespace });
  at("waiting").scrollIntoView({ block: "nearest" });
  at("pending").focus({ preventScroll: true });
});
const dirty = new Set();
let options = choices(cluster);
// Time of the last full list of nodes, and of the last change of one of them.
let listedAt = 0;
let changedAt = null;
let heard = false;

/** Draw these parts with the next frame. */
function redraw(...parts) {
  if (!dirty.size) requestAnimationFrame(draw);
  for (const part of parts) dirty.add(part);
}

function draw() {
  const parts = new Set(dirty);
  dirty.clear();
  if (!heard) return;
  if (parts.has("nodes")) {
    const shown = cluster.nodes.filter((node) => filters.shows(node));
    map.draw(cluster.nodes, new Set(shown), filters);
    render(mapViewTemplate(filters, map.grouping, change), at("map-view"));
    drawSubject(shown);
    render(totalsTemplate(totals(shown), shown.length), at("totals"));
    render(viewTemplate(shown.length), at("nodes-view"));
    render(legendTemplate(), at("nodes-legend"));
  }
  if (parts.has("nodes") || parts.has("pending")) {
    render(filterForm(filters, options, change, clear), at("filters"));
    at("pending-count").textContent = waitingCount(cluster.pending, filters);
  }
  if (parts.has("pending") || parts.has("beat")) {
    render(pendingTemplate(cluster.pending, filters, Date.now() / 1000), at("pending"));
  }
  if (parts.has("decisions")) render(decisionsTemplate(cluster.decisions, filters), at("decisions"));
  if (parts.has("samples") || parts.has("nodes") || parts.has("pending")) {
    render(historyTemplate([...cluster.samples, cluster.now()]), at("history"));
  }
  render(footTemplate(), at("foot"));
  Object.assign(at("foot").dataset, { mapMs: map.lastMs.toFixed(2), listMs: list.lastMs.toFixed(2), drawn: list.drawn });
}

/** The nodes, the running pods, the queue or the namespaces. */
function drawSubject(shown) {
  const subject = subjectOf(filters.view);
  at("nodes").hidden = at("nodes-legend").hidden = subject !== "nodes";
  at("nodes-title").textContent = TITLES[subject];
  if (subject === "nodes") list.show(sorted(shown, filters.sort), filters.view);
  running.show(subject === "pods" ? filters : null);
  queue.show(subject === "queue" ? filters : null);
  namespaces.show(subject === "namespaces" ? filters : null);
}

/** What the extender said last of the pod in the dialog: it is asked again when that changes. */
function saidOf({ kind, name }) {
  if (kind !== "pod") return "";
  const same = (each) => `${each.namespace}/${each.name}` === name;
  return JSON.stringify([cluster.pending.lines.find(same), cluster.decisions.find(same)]);
}

let said = { target: null, text: "" };
function refreshDialog(parts) {
  const { target } = dialog;
  if (target === null) return;
  const before = said;
  said = { target, text: saidOf(target) };
  const news = before.target === target && before.text !== said.text;
  if (target.kind === "node" ? parts.has("nodes") : news) dialog.refresh();
}

function changeAll(values) {
  Object.assign(filters, values);
  changed();
}

function change(field, value) {
  filters[field] = value;
  changed();
}

function changed() {
  filters.toAddress();
  redraw(...ALL);
  announceCount();
}

function clear() {
  filters.clear();
  filters.toAddress();
  redraw(...ALL);
  announceCount();
}

let announcing = 0;
function announceCount() {
  clearTimeout(announcing);
  announcing = setTimeout(() => {
    const shown = cluster.nodes.filter((node) => filters.shows(node)).length;
    at("announce").textContent = `${plural(shown, "node")} shown`;
  }, 700);
}

const tile = (term, name, value, note, kind = "") =>
  html`<div class=${`tile ${kind}`}><dt>${hint(term, name, term === "nodes")}</dt><dd>${value}<small>${note}</small></dd></div>`;

function totalsTemplate(sum, shown) {
  const part = (mib) => (sum.total ? `${percent(mib / sum.total)} of ${memory(sum.total)}` : "–");
  const held = sum.held < 1000 ? tenth(sum.held) : count(sum.held);
  const late = sum.stale + sum.missing > 0;
  const scope = filters.narrow
    ? html`<p class="scope">Totals of the ${count(shown)} of ${plural(cluster.nodes.length, "node")} that the filters leave</p>` : nothing;
  return html`${scope}<dl data-hints>
    ${tile("nodes", "GPU nodes", count(sum.nodes), reports(sum), late ? "warn" : "")}
    ${tile("gpus", "GPUs", count(sum.gpus), `${count(sum.idle)} wholly free`)}
    ${tile("allocated", "Allocated GPUs", sum.well ? percent(sum.held / sum.well) : "–", `${held} of ${count(sum.well)} in service`)}
    ${tile("requested", "Requested memory", memory(sum.requested), part(sum.requested))}
    ${tile("used", "Memory in use", memory(sum.used), part(sum.used))}
    ${tile("unaccounted", "Unaccounted", unaccountedText(sum), explained(sum), sum.unaccounted > sum.total / 50 ? "warn" : "")}
    ${tile("free", "Free memory", freeText(sum), "to be promised")}
    ${tile("sick", "Sick GPUs", count(sum.sick), sum.sick ? "take nothing new" : "all well", sum.sick ? "bad" : "")}
  </dl>`;
}

function reports(sum) {
  const reporting = sum.nodes - sum.stale - sum.missing - sum.labelled;
  if (reporting === sum.nodes) return "all report";
    // If there is no room for all, nodes that need attention are shown.
  const kinds = { stale: sum.stale, missing: sum.missing, "by labels": sum.labelled, report: reporting };
  return Object.entries(kinds).filter(([, number]) => number).map(([kind, number]) => `${count(number)} ${kind}`).join(", ");
}

function explained(sum) {
  if (sum.measured && !sum.reporting) return "no agent reports it";
  return sum.reporting < sum.measured ? `${count(sum.reporting)} of ${plural(sum.measured, "GPU")} report it` : "no pod explains it";
}

function viewTemplate(shown) {
  return html`${subjectSwitch(filters.view, change)}
    ${{ nodes: nodesView, pods: podsView, queue: () => nothing, namespaces: () => nothing }[subjectOf(filters.view)](shown)}`;
}

function nodesView(shown) {
  const of = filters.narrow ? ` of ${count(cluster.nodes.length)}` : "";
  const orders = { trouble: "what needs a look", name: "name", free: "most free", full: "fullest" };
  const views = { cards: "Cards", table: "Table" };
  return html`<span class="shown">${count(shown)}${of} shown</span>
    <select name="sort" aria-label="Order" @change=${(event) => change("sort", event.target.value)}>
      ${Object.entries(orders).map(([key, text]) => html`<option value=${key} ?selected=${filters.sort === key}>${text}</option>`)}
    </select>
    <span class="switch" role="group" aria-label="Show as">${Object.entries(views).map(([key, text]) =>
      html`<button type="button" name=${key} aria-pressed=${filters.view === key ? "true" : "false"}
        @click=${() => change("view", key)}>${text}</button>`)}</span>`;
}

const podsView = () => html`<input type="search" name="pods" aria-label="Pods with this in their name" placeholder="part of namespace/name" .value=${filters.pods} maxlength="317"
    spellcheck="false" autocomplete="off" @input=${(event) => change("pods", event.target.value)}>`;

function footTemplate() {
  const { status } = cluster;
  const when = changedAt ? `a node changed ${atSecond(changedAt / 1000)}` : `no node changed since ${atSecond(listedAt / 1000)}`;
  return html`<span>Generation ${count(status.generation)}, ${when}</span>
    ${subjectOf(filters.view) === "nodes" ? html`<span>the list draws the ${count(list.drawn)} in sight</span>` : nothing}
    <span>map drawn in ${map.lastMs.toFixed(1)} ms, list in ${list.lastMs.toFixed(1)} ms</span>
    <span>${bytes(stream.first)} at first, ${bytes(stream.received - stream.first)} since</span>
    <span>heard of ${ago(status.ageSeconds)} ago</span>
    <span>times are ${zone()}</span>`;
}

const LEGEND = {
  requested: "requested", used: "in use", unaccounted: "unaccounted", beyond: "beyond requests", free: "free",
  kept: "kept back", perhaps: "may be held",
};
function legendTemplate() {
  const busy = cluster.nodes.some((node) => node.devices.some((device) => device.busy !== null));
  return html`${Object.entries(LEGEND).map(([term, text], index) =>
    hint(term, html`<span class="key"><i class=${`mark ${term}`}></i>${text}</span>`, index === 0))}
    ${busy ? hint("busy", html`<span class="key">% busy</span>`, false) : nothing}`;
}
new Hints();

const connection = new Connection(at("connection"), at("banner"), at("announce"));
const stream = new Stream(
  (news) => {
    connection.answered(news.status);
    setIdleAfter(news.status.idleAfterSeconds);
    const parts = cluster.apply(news);
    if (news.full) [listedAt, changedAt] = [Date.now(), null];
    else if (parts.has("nodes")) changedAt = Date.now();
    if (parts.has("nodes") || parts.has("pending") || parts.has("decisions")) options = choices(cluster);
    refreshDialog(parts);
    redraw("beat", ...(heard ? parts : ALL));
    heard = true;
  },
  connection,
);

new Lookup(at("lookup"), at("announce"), {
  nodes: () => cluster.nodes,
  open: (address) => dialog.open(address),
  all: (values) => {
    // The number that was promised.
    filters.clear();
    changeAll(values);
  },
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  map.recolour();
  redraw("nodes");
});
// On one column, waiting pods come first: in the document too, so that Tab follows the eye.
const oneColumn = matchMedia("(max-width: 1000px)");
function placeWaiting() {
  if (oneColumn.matches) at("totals").before(at("waiting"));
  else at("decisions").closest("section").before(at("waiting"));
}
oneColumn.addEventListener("change", placeWaiting);
placeWaiting();
let width = 0;
new ResizeObserver(([entry]) => {
    // The page itself sets its height.
  if (entry.contentRect.width !== width) redraw("nodes");
  width = entry.contentRect.width;
}).observe(at("map"));
at("filters").addEventListener("submit", (event) => event.preventDefault());
