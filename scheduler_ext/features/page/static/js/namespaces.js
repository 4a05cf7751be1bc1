// Sums by namespace: what its pods hold, and how many wait.
import { html, nothing, render } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { ago, count, memory, named, plural, tenth, visible } from "./text.js";
import { Repeated } from "./views.js";

export class Namespaces {
  #root;
  #change;
  #showWaiting;
  #found = null;
  #filters = null;
  #repeated = new Repeated((found) => this.#draw(found));

    /** `showWaiting(namespace)` shows the waiting pods of one. */
  constructor(root, change, showWaiting) {
    this.#root = root;
    this.#change = change;
    this.#showWaiting = showWaiting;
  }

    /** Show them, with the chosen one marked; null: hide them. */
  show(filters) {
    this.#root.hidden = filters === null;
    this.#filters = filters;
    this.#repeated.follow(filters === null ? null : "namespaces");
    this.#draw(this.#found);
  }

  #draw(found) {
    this.#found = found;
    if (this.#filters === null) return;
    render(found === null ? html`<p class="empty">Reading</p>` : this.#table(found), this.#root);
  }

  #table({ total, namespaces }) {
    if (!total) return html`<p class="empty">No pod holds a GPU or waits for one.</p>`;
    const more = total - namespaces.length;
    return html`<div class="port" tabindex="0" role="region" aria-label="Namespaces"><table class="list">
      <caption>${plural(total, "namespace")}, of all nodes${more ? `; the first ${count(namespaces.length)} here` : ""}. Choose one to filter by it.</caption>
      <thead><tr><th scope="col">Namespace</th>${["GPUs", "Requested", "In use", "Running", "Waiting", "Longest wait"].map((text) =>
        html`<th scope="col" class="figure">${text}</th>`)}</tr></thead>
      <tbody>${repeat(namespaces, (each) => each.namespace, (each) => this.#row(each))}</tbody></table></div>`;
  }

  #row(each) {
    const chosen = this.#filters.namespace === each.namespace;
    return html`<tr class=${chosen ? "chosen" : ""}>
      <th scope="row"><button type="button" aria-pressed=${chosen ? "true" : "false"} @click=${() => this.#change({ namespace: chosen ? "" : each.namespace })}>${named(each.namespace)}</button></th>
      <td class="figure" data-head="GPUs">${tenth(each.gpus)}</td>
      <td class="figure" data-head="Requested">${memory(each.requestedMiB)}</td>
      <td class="figure" data-head="In use">${used(each)}</td>
      <td class="figure" data-head="Running">${each.running ? html`<button type="button" aria-label=${`${plural(each.running, "running pod")} of ${visible(each.namespace)}`}
        @click=${() => this.#change({ namespace: each.namespace, view: "pods" })}>${count(each.running)}</button>` : 0}</td>
      <td class="figure" data-head="Waiting">${each.waiting ? html`<button type="button" aria-label=${`${plural(each.waiting, "waiting pod")} of ${visible(each.namespace)}`}
        @click=${() => this.#showWaiting(each.namespace)}>${count(each.waiting)}</button>` : 0}</td>
      <td class="figure" data-head="Longest wait">${each.waitingSince === null ? (each.waiting ? "unknown" : "–") : ago(Date.now() / 1000 - each.waitingSince)}</td></tr>`;
  }
}

/** The known use; a lower bound if that of some pods is unknown. */
function used({ usedMiB, usedOf, running }) {
  if (usedMiB === null) return running ? "unknown" : "–";
  return html`${usedOf < running ? html`<span title=${`known of ${count(usedOf)} of ${plural(running, "pod")}`}>≥ </span>` : nothing}${memory(usedMiB)}`;
}
