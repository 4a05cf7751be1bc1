// The dialog about one node or one pod. The address says which one is open, so that links, the browser's Back and
// addresses from elsewhere work alike.
import { html, render } from "../vendor/lit-html.js";
import { targetOf } from "./address.js";
import { named, visible } from "./text.js";

export class Dialog {
  #dialog;
  #kinds;
  #target = null;
  #body = null;
  #asked = 0;

    /** `kinds` has for each kind of target `path(target)`, `gone` (the text without one), perhaps `unreadable` (the text
     * for a name that cannot be one) and `body(reply, target, again)`. */
  constructor(dialog, kinds) {
    this.#dialog = dialog;
    this.#kinds = kinds;
    dialog.addEventListener("close", () => this.#closed());
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close();
    });
    for (const change of ["hashchange", "popstate"]) addEventListener(change, () => this.#follow());
    this.#follow();
  }

  get target() {
    return this.#target;
  }

    /** Open what this address (of address.js) names. */
  open(address) {
    if (location.hash !== address) history.pushState(null, "", address);
    this.#follow();
  }

    /** Fetch it again, while it is open. */
  async refresh() {
    const target = this.#target;
    if (target === null) return;
    this.#asked += 1;
    const asked = this.#asked;
    const body = await this.#fetched(target);
    if (this.#asked !== asked || this.#target !== target) return;
    const first = this.#body === null;
    this.#body = body;
    this.#draw();
    if (first) this.#aim();
  }

  #follow() {
    const target = targetOf(location.hash);
    if (JSON.stringify(target) === JSON.stringify(this.#target)) return;
    this.#target = target;
    this.#body = null;
    if (target === null) {
      this.#dialog.close();
      return;
    }
    this.#draw();
    if (!this.#dialog.open) this.#dialog.showModal();
    this.#dialog.scrollTop = 0;
    this.#dialog.querySelector("h2").focus({ preventScroll: true });
    this.refresh();
  }

  #closed() {
        // The event comes later: the dialog may be open again.
    if (this.#dialog.open) return;
    this.#target = null;
    if (targetOf(location.hash)) history.pushState(null, "", location.pathname + location.search);
  }

  async #fetched(target) {
    const kind = this.#kinds[target.kind];
    try {
      const reply = await fetch(kind.path(target));
      const absent = { 400: kind.unreadable, 404: kind.gone }[reply.status];
      if (absent) return html`<p class="empty">${absent}</p>`;
      const found = await reply.json();
      if (reply.ok) return kind.body(found, target, () => this.refresh());
      return html`<p class="empty">${visible(found.error)}</p>${againButton(() => this.refresh())}`;
    } catch {
      return html`<p class="empty">The server does not answer.</p>${againButton(() => this.refresh())}`;
    }
  }

    /** The GPU that the address names comes into sight. */
  #aim() {
    const row = this.#dialog.querySelector(".aimed");
    row?.scrollIntoView({ block: "center" });
    row?.querySelector("a")?.focus({ preventScroll: true });
  }

  #draw() {
    const { kind, name } = this.#target;
    render(html`<header><h2 id="detail-title" tabindex="-1"><span class="kind">${kind === "pod" ? "Pod" : "Node"}</span> ${named(name)}</h2>
      <button type="button" class="close" @click=${() => this.#dialog.close()}>Close</button></header>
      ${this.#body ?? html`<p class="empty">Reading</p>`}`, this.#dialog);
  }
}

export const againButton = (again) => html`<button type="button" class="again" @click=${again}>Update</button>`;
