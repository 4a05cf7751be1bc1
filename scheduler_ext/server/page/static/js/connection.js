// Whether the page is up to date: the state beside the title, and a banner with the reason if it is not.
import { html, nothing, render } from "../vendor/lit-html.js";
import { ago, atSecond, visible } from "./text.js";

export class Connection {
  #pill;
  #banner;
  #announce;
  #status = null;
  #lostAt = null;
  #begun = false;
  #said = "";

  constructor(pill, banner, announce) {
    this.#pill = pill;
    this.#banner = banner;
    this.#announce = announce;
  }

    /** The server answered: with the state of the cluster, or only with its own state if `begun` is false. */
  answered(status, begun = true) {
    this.#status = status;
    this.#begun ||= begun;
    this.#lostAt = null;
    this.#draw();
  }

    /** The server has not answered for so many seconds. */
  lost(since) {
    this.#lostAt ??= since;
    this.#draw();
  }

  #draw() {
    const now = Date.now() / 1000;
    const problems = this.#lostAt === null
      ? (this.#status?.problems ?? [])
      : [{ what: "extender", text: "it does not answer", since: this.#lostAt }];
    const [state, text] = this.#state(problems);
    this.#pill.dataset.state = state;
    this.#pill.textContent = text;
    this.#banner.hidden = !problems.length;
    const begun = this.#begun ? "This page may be out of date: it shows the state of that time." : "Nothing is known of the cluster yet.";
    render(problems.length
      ? html`<strong>${begun}</strong><ul>${problems.map((each) => html`<li>${visible(each.what)}, since ${atSecond(each.since)}
        (${ago(now - each.since)}): ${visible(each.text)}</li>`)}</ul>`
      : nothing, this.#banner);
    // Once for each change of state, because the times change with every beat.
    if (state === this.#said) return;
    const first = !this.#said;
    this.#said = state;
    if (problems.length) this.#announce.textContent = `${text}. ${begun}`;
    else if (!first) this.#announce.textContent = text;
  }

  #state(problems) {
    if (this.#lostAt !== null) return ["lost", `No answer since ${atSecond(this.#lostAt)}`];
    if (problems.length) return ["old", `Out of date since ${atSecond(Math.min(...problems.map((each) => each.since)))}`];
    return this.#begun ? ["live", "Live"] : ["wait", "Waiting for the inventory"];
  }
}
