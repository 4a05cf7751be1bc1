// The pods that hold GPUs, as a table: the first of them, and how many there are.
import { html, nothing, render } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { nodeLink, podLink } from "./pod.js";
import { ago, count, memory, plural, tenth, visible } from "./text.js";
import { Repeated } from "./views.js";

// Heading, the order that a click on it chooses, and whether the column has figures.
const COLUMNS = [
  ["Pod", "name", "ascending", false], ["Node", null, null, false], ["GPUs", "gpus", "descending", true],
  ["Requested", "requested", "descending", true], ["In use", "used", "descending", true], ["Age", "oldest", "descending", true],
];

export class RunningPods {
  #root;
  #change;
  #found = null;
  #filters = null;
  #repeated = new Repeated((found) => this.#draw(found));

  constructor(root, change) {
    this.#root = root;
    this.#change = change;
  }

    /** Show the pods that these filters leave; null: none. */
  show(filters) {
    this.#root.hidden = filters === null;
    this.#filters = filters;
    if (filters === null) {
      this.#repeated.follow(null);
      return;
    }
    const asked = { find: filters.pods, namespace: filters.namespace, node: filters.find, pool: filters.pool, model: filters.model, sort: filters.podOrder };
    const given = Object.entries(asked).filter(([, value]) => value);
    this.#repeated.follow(`pods?${new URLSearchParams(given)}`);
    this.#draw(this.#found);
  }

  #draw(found) {
    this.#found = found;
    if (this.#filters === null) return;
    render(found === null ? html`<p class="empty">Reading</p>` : this.#table(found), this.#root);
  }

  #table({ total, pods }) {
    if (!total) return html`<p class="empty">No pod with GPUs matches.</p>`;
    const more = total - pods.length;
    return html`<div class="port" tabindex="0" role="region" aria-label="Running pods"><table class="list">
      <caption>${plural(total, "pod")}${more ? `, the first ${count(pods.length)} here: narrow them by name, namespace or node` : ""}</caption>
      <thead><tr>${COLUMNS.map((column) => this.#head(...column))}</tr></thead>
      <tbody>${repeat(pods, (pod) => `${pod.namespace}/${pod.name}/${pod.node}`, row)}</tbody></table></div>`;
  }

  #head(text, order, direction, figure) {
    const chosen = order !== null && this.#filters.podOrder === order;
    return html`<th scope="col" class=${figure ? "figure" : ""} aria-sort=${chosen ? direction : "none"}>${order === null ? text
      : html`<button type="button" name=${`order-${order}`} @click=${() => this.#change("podOrder", order)}>${text}${chosen ? (direction === "ascending" ? " ▲" : " ▼") : nothing}</button>`}</th>`;
  }
}

const row = (pod) => html`<tr><th scope="row">${podLink(pod)}${pod.state === "Bound" ? nothing : html` <small>${pod.state.toLowerCase()}</small>`}<br><small>${visible(pod.asks)}${pod.idleSeconds === null ? "" : `, idle for ${ago(pod.idleSeconds)}`}</small></th>
  <td data-head="Node">${nodeLink(pod.node)}</td>
  <td class="figure" data-head="GPUs">${tenth(pod.gpus)}${pod.devices.length ? html`<br><small>${indices(pod)}</small>` : nothing}</td>
  <td class="figure" data-head="Requested">${pod.requestedMiB ? memory(pod.requestedMiB) : "–"}</td>
  <td class="figure" data-head="In use">${pod.usedMiB === null ? "unknown" : memory(pod.usedMiB)}</td>
  <td class="figure" data-head="Age">${pod.since === null ? "–" : ago(Date.now() / 1000 - pod.since)}</td></tr>`;

/** Links to the pod's GPUs, each once. */
function indices(pod) {
  const known = [...new Set(pod.devices.map((each) => each.index))].filter((index) => index !== null);
  return known.map((index, at) => html`${at ? ", " : "GPU "}${nodeLink(pod.node, index, index)}`);
}
