// Explanations of words and bars: shown under the mouse, for the focused word, and after a touch.
import { html } from "../vendor/lit-html.js";
import { TERMS } from "./terms.js";

/** A word with its explanation; `first` is the one of its group that Tab reaches, arrows lead to the others. */
export const hint = (term, content, first = true) => html`<button type="button" class="hint" tabindex=${first ? 0 : -1}
  data-hint=${TERMS[term]} aria-description=${TERMS[term]}>${content}</button>`;

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

export class Hints {
  #tip = document.createElement("div");
  #of = null;

  constructor() {
    this.#tip.className = "tip";
    this.#tip.setAttribute("aria-hidden", "true");
    this.#tip.hidden = true;
    const at = (event) => event.target.closest?.("[data-hint]") ?? null;
    document.addEventListener("pointerover", (event) => event.pointerType === "mouse" && this.#show(at(event)));
    document.addEventListener("focusin", (event) => this.#show(at(event)));
    document.addEventListener("focusout", () => this.#show(null));
    document.addEventListener("click", (event) => this.#show(at(event)));
    // The focus scrolls its word into sight; a bar that leaves the list takes its explanation along.
    document.addEventListener("scroll", () => this.#show(this.#of?.isConnected ? this.#of : null), { capture: true, passive: true });
    document.addEventListener("keydown", (event) => this.#key(event));
  }

  #show(of) {
    this.#of = of;
    this.#tip.hidden = !of;
    if (!of) return;
    // What is outside an open dialog is under it.
    (of.closest("dialog") ?? document.body).append(this.#tip);
    this.#tip.textContent = of.dataset.hint;
    const { left, top, bottom } = of.getBoundingClientRect();
    const { offsetWidth, offsetHeight } = this.#tip;
    const x = Math.max(8, Math.min(left, document.documentElement.clientWidth - offsetWidth - 8));
    const y = bottom + 6 + offsetHeight > innerHeight ? top - offsetHeight - 6 : bottom + 6;
    this.#tip.style.transform = `translate(${x}px, ${y}px)`;
  }

  #key(event) {
    if (event.key === "Escape" && this.#of) {
      // The first Escape is for the explanation, the next one for the dialog.
      event.preventDefault();
      this.#show(null);
      return;
    }
    const words = [...(event.target.closest?.("[data-hints]")?.querySelectorAll("button.hint") ?? [])];
    const from = words.indexOf(event.target);
    const step = STEPS[event.key];
    if (from < 0 || !step) return;
    event.preventDefault();
    const to = words[(from + step + words.length) % words.length];
    words[from].tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  }
}
