// One field that finds nodes and pods by a part of their name, and opens them.
import { html, nothing, render } from "../vendor/lit-html.js";
import { nodeAddress, podAddress } from "./address.js";
import { count, named, plural } from "./text.js";

const WAIT_MS = 150;
const MOST_SHOWN = 20;
const NOTHING = { total: 0, pods: [] };

export class Lookup {
  #root;
  #nodes;
  #open;
  #all;
  #announce;
  #text = "";
  #pods = null;
  #active = 0;
  #timer = 0;
  #shown = false;

    /** `nodes()` are those of the page, `open(address)` opens one, `all(text)` shows all running pods with the text. */
  constructor(root, announce, { nodes, open, all }) {
    this.#root = root;
    this.#announce = announce;
    this.#nodes = nodes;
    this.#open = open;
    this.#all = all;
    root.addEventListener("submit", (event) => event.preventDefault());
    root.addEventListener("focusout", (event) => {
      if (!root.contains(event.relatedTarget)) this.#hide();
    });
    document.addEventListener("keydown", (event) => {
      const typing = event.target.closest("input, select, textarea, dialog");
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.#field.focus();
    });
    this.#draw();
  }

  get #field() {
    return this.#root.querySelector("input");
  }

  #typed(text) {
    this.#text = text.trim();
    this.#active = 0;
    this.#pods = null;
    this.#shown = this.#text !== "";
    clearTimeout(this.#timer);
    this.#timer = this.#shown ? setTimeout(() => this.#ask(), WAIT_MS) : 0;
    this.#draw();
  }

  async #ask() {
    const text = this.#text;
    let found = { running: NOTHING, waiting: NOTHING };
    try {
      const reply = await fetch(`search?find=${encodeURIComponent(text)}`);
      if (reply.ok) found = await reply.json();
    } catch {
            // Nodes are found without the server.
    }
    if (text !== this.#text || !this.#shown) return;
    this.#pods = found;
    this.#draw();
    const total = this.#groups().reduce((sum, group) => sum + group.total, 0);
    this.#announce.textContent = total ? `${plural(total, "hit")}` : "Nothing found";
  }

    /** The hits by kind, those whose name begins with the text first. */
  #groups() {
    const text = this.#text.toLowerCase();
    const nodes = this.#nodes().filter((node) => node.search.includes(text));
    nodes.sort((a, b) => b.search.startsWith(text) - a.search.startsWith(text));
    const of = (pods) => pods.map((pod) => ({
      address: podAddress(pod.namespace, pod.name),
      text: html`${named(pod.namespace)}/${named(pod.name)}${pod.node ? html` <small>${named(pod.node)}</small>` : nothing}`,
    }));
    const { running, waiting } = this.#pods ?? { running: NOTHING, waiting: NOTHING };
    const groups = [
      { name: "Nodes", total: nodes.length, hits: nodes.slice(0, MOST_SHOWN).map((node) => ({ address: nodeAddress(node.name), text: named(node.name) })) },
      { name: "Waiting pods", total: waiting.total, hits: of(waiting.pods) },
      { name: "Running pods", total: running.total, hits: of(running.pods) },
    ].filter((group) => group.total);
    const last = groups.at(-1);
    if (last?.name === "Running pods") last.hits.push({ address: null, text: `Show ${last.total > 1 ? `all ${count(last.total)} running pods` : "it in the list"}` });
    return groups;
  }

  #choose(hit) {
    const text = this.#text;
    this.#hide();
    if (hit.address === null) this.#all(text);
    else this.#open(hit.address);
  }

  #hide() {
    this.#shown = false;
    this.#draw();
  }

  #key(event) {
    const hits = this.#shown ? this.#groups().flatMap((group) => group.hits) : [];
    const to = { ArrowDown: this.#active + 1, ArrowUp: this.#active - 1 }[event.key];
    if (event.key === "Escape" && this.#shown) {
      event.preventDefault();
      this.#hide();
    } else if (event.key === "Enter" && hits.length) {
      this.#choose(hits[this.#active]);
    } else if (to !== undefined) {
      event.preventDefault();
      this.#shown = this.#text !== "";
      if (hits.length) this.#active = (to + hits.length) % hits.length;
      this.#draw();
      this.#root.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
    }
  }

  #draw() {
    const groups = this.#shown ? this.#groups() : [];
    let number = -1;
    render(html`<input type="search" name="lookup" role="combobox" aria-label="Find a pod or a node" placeholder="Find a pod or a node ( / )"
        maxlength="317" spellcheck="false" autocomplete="off" aria-autocomplete="list" aria-controls="hits"
        aria-expanded=${this.#shown ? "true" : "false"} aria-activedescendant=${groups.length ? `hit-${this.#active}` : ""}
        @input=${(event) => this.#typed(event.target.value)} @keydown=${(event) => this.#key(event)}>
      <div id="hits" role="listbox" aria-label="Hits" ?hidden=${!this.#shown} @mousedown=${(event) => event.preventDefault()}>
      ${groups.map((group) => html`<div role="group" aria-label=${`${group.name}, ${count(group.total)}`}>
        <p class="scope" aria-hidden="true">${group.name} (${amount(group)})</p>
        ${group.hits.map((hit) => {
          number += 1;
          return html`<div role="option" id=${`hit-${number}`} aria-selected=${number === this.#active ? "true" : "false"}
            class=${hit.address === null ? "all" : ""} @click=${() => this.#choose(hit)}>${hit.text}</div>`;
        })}</div>`)}
      ${groups.length ? nothing : html`<p class="empty">${this.#pods === null ? "Searching" : "No node or pod has this in its name."}</p>`}</div>`, this.#root);
  }
}

function amount({ total, hits }) {
  const shown = hits.filter((hit) => hit.address !== null).length;
  return shown < total ? `${count(shown)} of ${count(total)}` : count(total);
}
