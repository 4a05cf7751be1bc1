// The queue of waiting pods and gangs as a table: their order, their places, and when they will start.
import { html, nothing, render } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { nodeLink, podLink } from "./pod.js";
import { ago, atDay, count, percent, plural, visible } from "./text.js";
import { Repeated } from "./views.js";

const HEADS = [["Position", true], ["Pod", false], ["State", false], ["Planned node", false], ["Waiting", true], ["Start", false], ["Reason", false]];

export class QueueTable {
  #root;
  #found = null;
  #filters = null;
  #repeated = new Repeated((found) => this.#draw(found));

  constructor(root) {
    this.#root = root;
  }

    /** Show the rows of the filters' namespace; null: hide them. */
  show(filters) {
    this.#root.hidden = filters === null;
    this.#filters = filters;
    if (filters === null) {
      this.#repeated.follow(null);
      return;
    }
    const given = new URLSearchParams(filters.namespace ? { namespace: filters.namespace } : {});
    this.#repeated.follow(`queue?${given}`);
    this.#draw(this.#found);
  }

  #draw(found) {
    this.#found = found;
    if (this.#filters === null) return;
    render(found === null ? html`<p class="empty">Reading</p>` : this.#table(found), this.#root);
  }

  #table(found) {
    if (!found.total) return html`<p class="empty">No pod waits for a GPU.</p>`;
    return html`<div class="port" tabindex="0" role="region" aria-label="Queue"><table class="list queue">
      <caption>${caption(found)}</caption>
      <thead><tr>${HEADS.map(([text, figure]) => html`<th scope="col" class=${figure ? "figure" : ""}>${text}</th>`)}</tr></thead>
      <tbody>${repeat(found.items, (item) => item.uid ?? `${item.namespace}/${item.name}`, (item) => row(item, found.states))}</tbody></table></div>`;
  }
}

function caption({ total, items, planning, within, runTimes }) {
  const parts = [plural(total, "pod or gang", "pods and gangs")];
  if (total > items.length) parts.push(`the first ${count(items.length)} here`);
  parts.push(planning ? "in the order of the plan" : "in kube-scheduler's order; planning is off");
  const basis = runTimes === null ? "only stated limits of run times are known" : `from ${plural(runTimes, "past run")}; ${percent(within)} of pods start within the interval`;
  return `${parts.join(", ")}. Start: ${basis}.`;
}

const row = (item, states) => html`<tr>
  <td class="figure" data-head="Position">${count(item.position)}</td>
  <th scope="row">${item.gang ? html`${visible(`${item.namespace}/${item.name}`)}<br><small>${count(item.members.length)} of a gang: ${members(item)}</small>` : podLink(item)}
    <br><small>${visible(item.asks)}${item.priority ? ` · priority ${count(item.priority)}` : ""}</small></th>
  <td data-head="State" title=${states[item.state] ?? ""}>${item.state}</td>
  <td data-head="Planned node">${nodes(item)}</td>
  <td class="figure" data-head="Waiting">${item.waitingSeconds === null ? "–" : ago(item.waitingSeconds)}</td>
  <td data-head="Start" title=${item.start.latest === null ? "" : `by ${atDay(Date.parse(item.start.latest) / 1000)}`}>${start(item.start)}</td>
  <td data-head="Reason">${visible(item.reason)}</td></tr>`;

const MOST_MEMBERS = 4;
function members({ members: all }) {
  const shown = all.slice(0, MOST_MEMBERS);
  return html`${shown.map((each, index) => html`${index ? ", " : ""}${podLink(each)}`)}${all.length > shown.length ? ` and ${count(all.length - shown.length)} more` : ""}`;
}

function nodes(item) {
  const names = Object.entries(item.nodes);
  if (!names.length) return "–";
  return names.map(([name, pods], index) => html`${index ? ", " : ""}${nodeLink(name)}${pods > 1 ? ` × ${pods}` : ""}`);
}

/** The interval from now on. */
function start({ earliest, latest, byStatedLimits, unknown }) {
  const until = fromNow(latest);
  if (until === null) return html`unknown${earliest && fromNow(earliest) !== "now" ? html`, after ${fromNow(earliest)}` : nothing}<br><small>${visible(unknown)}</small>`;
  if (byStatedLimits || earliest === null) return html`within ${until}<br><small>by stated limits</small>`;
  const from = fromNow(earliest);
  if (from === until) return until;
  return from === "now" ? `within ${until}` : `${from} – ${until}`;
}

function fromNow(time) {
  if (time === null) return null;
  const seconds = (Date.parse(time) - Date.now()) / 1000;
  return seconds < 1 ? "now" : span(seconds);
}

const HOUR_S = 3600;

/** A time span with a second unit where the first one alone would be coarse. */
function span(seconds) {
  const minutes = Math.round(seconds / 60);
  if (seconds < HOUR_S || seconds >= 10 * HOUR_S || minutes % 60 === 0) return ago(seconds);
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
