// The choice between nodes, pods, the queue and namespaces, and the parts that a page fetches only while they are open.
import { html } from "../vendor/lit-html.js";

const EVERY_MS = 5000;
export const TITLES = { nodes: "Nodes", pods: "Running pods", queue: "Queue", namespaces: "Namespaces" };

/** The subject of a view: nodes for cards and table. */
export const subjectOf = (view) => (view in TITLES ? view : "nodes");

export const subjectSwitch = (view, changed) => html`<span class="switch" role="group" aria-label="Show">${Object.entries(TITLES).map(
  ([subject, text]) => html`<button type="button" name=${`view-${subject}`} aria-pressed=${subjectOf(view) === subject ? "true" : "false"}
    @click=${() => changed("view", subject === "nodes" ? "cards" : subject)}>${text}</button>`)}</span>`;

/** Asks for a path, again and again while it is shown; `taken` gets the reply, or null without one. */
export class Repeated {
  #path = null;
  #taken;
  #timer = 0;

  constructor(taken) {
    this.#taken = taken;
    document.addEventListener("visibilitychange", () => this.#ask());
  }

    /** Ask for this path from now on; null: stop. */
  follow(path) {
    if (path === this.#path) return;
    this.#path = path;
    this.#ask();
  }

  async #ask() {
    clearTimeout(this.#timer);
    const path = this.#path;
    if (path === null || document.hidden) return;
    let found = null;
    try {
      const reply = await fetch(path);
      if (reply.ok) found = await reply.json();
    } catch {
            // Without an answer the state of the connection is beside the title.
    }
    if (path !== this.#path) return;
    if (found) this.#taken(found);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(), EVERY_MS);
  }
}
