// Puts the page together: a change of the cluster or of the filters is drawn once, with the next frame.
import { html, nothing, render } from "../vendor/lit-html.js";
import { Cluster, totals } from "./cluster.js";
import { Detail } from "./detail.js";
import { choices, filterForm, Filters, sorted } from "./filters.js";
import { historyTemplate } from "./history.js";
import { NodeMap } from "./map.js";
import { NodeList } from "./nodes.js";
import { decisionsTemplate, pendingTemplate } from "./pods.js";
import { Stream } from "./stream.js";
import { atSecond, bytes, count, memory, percent, plural, tenth, unaccountedText, visible } from "./text.js";

const at = (id) => document.getElementById(id);
const ALL = ["nodes", "pending", "decisions", "samples"];

const cluster = new Cluster();
const filters = Filters.fromAddress();
const detail = new Detail(at("detail"));
const map = new NodeMap(at("map"), at("map-legend"), {
  onNode: (name) => list.go(name),
  onModel: (model) => change("model", filters.model === model ? "" : model),
});
const list = new NodeList(at("nodes"), (name) => detail.open(name));
const dirty = new Set();
let options = choices(cluster);
// When all nodes were told, and when one of them changed since.
let toldAt = 0;
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
    map.draw(cluster.nodes, new Set(shown), filters.model);
    list.show(sorted(shown, filters.sort), filters.view);
    render(totalsTemplate(totals(shown)), at("totals"));
    render(viewTemplate(shown.length), at("nodes-view"));
  }
  if (parts.has("nodes") || parts.has("pending")) {
    render(filterForm(filters, options, change, clear), at("filters"));
    const title = `Waiting pods${cluster.pending.total ? ` (${count(cluster.pending.total)})` : ""}`;
    at("pending-title").textContent = title;
  }
  if (parts.has("pending") || parts.has("beat")) {
    render(pendingTemplate(cluster.pending, filters, Date.now() / 1000), at("pending"));
  }
  if (parts.has("decisions")) render(decisionsTemplate(cluster.decisions, filters), at("decisions"));
  if (parts.has("samples")) render(historyTemplate(cluster.samples), at("history"));
  render(footTemplate(), at("foot"));
  Object.assign(at("foot").dataset, { mapMs: map.lastMs.toFixed(2), listMs: list.lastMs.toFixed(2), drawn: list.drawn });
}

function change(field, value) {
  filters[field] = value;
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

const tile = (name, value, note = nothing, kind = "") =>
  html`<div class=${`tile ${kind}`}><dt>${name}</dt><dd>${value}<small>${note}</small></dd></div>`;

function totalsTemplate(sum) {
  const late = [sum.stale ? `${count(sum.stale)} stale` : "", sum.missing ? `${count(sum.missing)} missing` : ""].filter(Boolean);
  const part = (mib) => (sum.total ? percent(mib / sum.total) : "–");
  return html`<dl>
    ${tile("Nodes", count(sum.nodes), late.join(", ") || "all report", late.length ? "warn" : "")}
    ${tile("GPUs", count(sum.gpus), `${count(sum.idle)} wholly free`)}
    ${tile("Allocated", sum.well ? percent(sum.held / sum.well) : "–", `${sum.held < 1000 ? tenth(sum.held) : count(sum.held)} of ${plural(sum.well, "GPU")}`)}
    ${tile("Requested", memory(sum.requested), `${part(sum.requested)} of memory`)}
    ${tile("In use", memory(sum.used), `${part(sum.used)} of memory`)}
    ${tile("Unaccounted", unaccountedText(sum), explained(sum), sum.unaccounted > sum.total / 50 ? "warn" : "")}
    ${tile("Free", memory(sum.free), "to be promised")}
    ${tile("Sick GPUs", count(sum.sick), sum.sick ? "take nothing new" : "all well", sum.sick ? "bad" : "")}
  </dl>`;
}

function explained(sum) {
  if (sum.measured && !sum.telling) return "no agent can tell";
  return sum.telling < sum.measured ? `${count(sum.telling)} of ${plural(sum.measured, "GPU")} tell` : "no pod explains it";
}

function viewTemplate(shown) {
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

function footTemplate() {
  const { status } = cluster;
  const when = changedAt ? `a node changed ${atSecond(changedAt / 1000)}` : `no node changed since ${atSecond(toldAt / 1000)}`;
  return html`<span>Generation ${count(status.generation)}, ${when}</span>
    <span>${list.drawn} of ${plural(cluster.nodes.length, "node")} in the document</span>
    <span>map drawn in ${map.lastMs.toFixed(1)} ms, list in ${list.lastMs.toFixed(1)} ms</span>
    <span>${bytes(stream.first)} at first, ${bytes(stream.received - stream.first)} since</span>
    ${status.notes.map((note) => html`<span class="warn">${visible(note)}</span>`)}`;
}

render(
  html`<span class="key"><i class="mark requested"></i>requested</span>
    <span class="key"><i class="mark used"></i>in use</span>
    <span class="key"><i class="mark unaccounted"></i>unaccounted</span>
    <span class="key"><i class="mark beyond"></i>beyond requests</span>
    <span class="key"><i class="mark free"></i>free</span>
    <span class="key"><i class="mark kept"></i>kept back</span>`,
  at("nodes-legend"),
);

const stream = new Stream(
  (news) => {
    const parts = cluster.apply(news);
    if (news.full) [toldAt, changedAt] = [Date.now(), null];
    else if (parts.has("nodes")) changedAt = Date.now();
    if (parts.has("nodes") || parts.has("pending") || parts.has("decisions")) options = choices(cluster);
    if (parts.has("nodes")) detail.refresh();
    redraw("beat", ...(heard ? parts : ALL));
    heard = true;
  },
  (state) => {
    const texts = { live: "Live", lost: `No answer since ${atSecond(Date.now() / 1000)}` };
    at("connection").dataset.state = state;
    at("connection").textContent = texts[state];
    if (state === "lost") at("announce").textContent = "The server does not answer; the page is old.";
  },
);

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  map.recolour();
  redraw("nodes");
});
let width = 0;
new ResizeObserver(([entry]) => {
  // Its height is our own doing.
  if (entry.contentRect.width !== width) redraw("nodes");
  width = entry.contentRect.width;
}).observe(at("map"));
at("filters").addEventListener("submit", (event) => event.preventDefault());
