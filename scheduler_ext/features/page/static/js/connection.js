// Whether the page is up to date: the state beside the title, and a banner with the reason if it is not.
import { html, nothing, render } from "../vendor/lit-html.js";
import { explained, isInPart } from "./problems.js";
import { ago, atDay, atSecond, visible } from "./text.js";

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
      : [{ what: "extender", text: "", since: this.#lostAt }];
    const [state, text] = this.#state(problems);
    this.#pill.dataset.state = state;
    this.#pill.textContent = text;
    this.#banner.hidden = !problems.length;
    const begun = this.#lead(problems);
    render(problems.length
      ? html`<p>${begun}</p><ul>${problems.map((each) => problemTemplate(each, this.#begun, now))}</ul>`
      : nothing, this.#banner);
    // Once for each change of state, because the times change with every beat.
    if (state === this.#said) return;
    const first = !this.#said;
    this.#said = state;
    if (problems.length) this.#announce.textContent = `${text}. ${begun}`;
    else if (!first) this.#announce.textContent = text;
  }

  #lead(problems) {
    if (!this.#begun) return "Nothing is known of the cluster yet.";
    if (problems.every(isInPart)) return "A part of this page is out of date.";
    return "This page may be out of date: it shows the state of that time.";
  }

  #state(problems) {
    if (this.#lostAt !== null) return ["lost", `No answer since ${atSecond(this.#lostAt)}`];
    if (problems.length && problems.every(isInPart)) return ["old", "In part out of date"];
    if (problems.length) return ["old", `Out of date since ${atSecond(Math.min(...problems.map((each) => each.since)))}`];
    return this.#begun ? ["live", "Live"] : ["wait", "Waiting for the inventory"];
  }
}

function problemTemplate(problem, begun, now) {
  const { title, todo, command } = explained(problem, begun);
  return html`<li><strong>${visible(title)}</strong> since ${atDay(problem.since)} (${ago(now - problem.since)})${problem.text ? `: ${visible(problem.text)}` : ""}
    <p class="todo">${todo}${command ? html` <code>${command}</code>` : nothing}</p></li>`;
}
