// One field that finds nodes and pods by a part of their name, and opens them.
import { html, nothing, render } from "../vendor/lit-html.js";
import { nodeAddress, podAddress } from "./address.js";
import { count, named, plural } from "./text.js";

const WAIT_MS = 150;
const PATIENCE_MS = 5000;
// Of all kinds together: each has room for some, so that none hides another.
const MOST_HITS = 15;
const NOTHING = { total: 0, pods: [] };

export class Lookup {
  #root;
  #nodes;
  #open;
  #all;
  #announce;
  #text = "";
  // The hits for a text, which may be older than the one in the field; null before the first.
  #found = null;
  #active = 0;
  #timer = 0;
  #shown = false;
  #entered = false;

    /** `nodes()` are those of the page, `open(address)` opens one, `all(filters)` shows the list that these leave. */
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

  get #hits() {
    return this.#found?.groups.flatMap((group) => group.hits) ?? [];
  }

  #typed(text) {
    this.#text = text.trim();
    this.#entered = false;
    this.#shown = this.#text !== "";
    clearTimeout(this.#timer);
    if (this.#shown) this.#timer = setTimeout(() => this.#ask(), WAIT_MS);
    else this.#found = null;
    this.#draw();
  }

  async #ask() {
    const text = this.#text;
    let pods = { running: NOTHING, waiting: NOTHING };
    try {
      const reply = await fetch(`search?find=${encodeURIComponent(text)}`, { signal: AbortSignal.timeout(PATIENCE_MS) });
      if (reply.ok) pods = await reply.json();
    } catch {
            // Nodes are found without the server.
    }
    if (text !== this.#text || !this.#shown) return;
    this.#found = { text, groups: grouped(text.toLowerCase(), this.#nodes(), pods) };
    this.#active = 0;
    this.#draw();
    const total = this.#found.groups.reduce((sum, group) => sum + group.total, 0);
    this.#announce.textContent = total ? `${plural(total, "hit")}` : "Nothing found";
    if (this.#entered && total) this.#choose(this.#hits[0]);
  }

  #choose(hit) {
    this.#hide();
    if (hit.all) this.#all(hit.all);
    else this.#open(hit.address);
  }

  #hide() {
    this.#shown = this.#entered = false;
    this.#draw();
  }

  #key(event) {
    const hits = this.#shown ? this.#hits : [];
    const to = { ArrowDown: this.#active + 1, ArrowUp: this.#active - 1 }[event.key];
    if (event.key === "Escape" && this.#shown) {
      event.preventDefault();
      this.#hide();
    } else if (event.key === "Enter") {
      // Faster than the answer: the best hit opens with it.
      if (this.#shown && this.#found?.text !== this.#text) this.#entered = true;
      else if (hits.length) this.#choose(hits[this.#active]);
    } else if (to !== undefined) {
      event.preventDefault();
      this.#shown = this.#text !== "";
      if (hits.length) this.#active = (to + hits.length) % hits.length;
      this.#draw();
      this.#root.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
    }
  }

  #draw() {
    const groups = this.#shown ? (this.#found?.groups ?? []) : [];
    let number = -1;
    render(html`<input type="search" name="lookup" role="combobox" aria-label="Find a pod or a node" placeholder="Find a pod or a node ( / )"
        maxlength="317" spellcheck="false" autocomplete="off" aria-autocomplete="list" aria-controls="hits"
        aria-expanded=${this.#shown ? "true" : "false"} aria-activedescendant=${groups.length ? `hit-${this.#active}` : ""}
        @input=${(event) => this.#typed(event.target.value)} @keydown=${(event) => this.#key(event)}>
      <div id="hits" role="listbox" aria-label="Hits" ?hidden=${!this.#shown} @mousedown=${(event) => event.preventDefault()}>
      ${groups.map((group) => html`<div role="group" aria-label=${`${group.name}, ${count(group.total)}`}>
        <p class="scope" aria-hidden="true">${group.name} (${group.shown < group.total ? `${count(group.shown)} of ` : ""}${count(group.total)})</p>
        ${group.hits.map((hit) => {
          number += 1;
          return html`<div role="option" id=${`hit-${number}`} aria-selected=${number === this.#active ? "true" : "false"}
            class=${hit.all ? "all" : ""} @click=${() => this.#choose(hit)}>${hit.text}</div>`;
        })}</div>`)}
      ${groups.length ? nothing : html`<p class="empty">${this.#found === null ? "Searching" : "No node or pod has this in its name."}</p>`}</div>`, this.#root);
  }
}

/** 0 for a name that is the text, 1 for one that begins with it, 2 for any other. */
const distance = (text, name) => (name === text ? 0 : name.startsWith(text) ? 1 : 2);
const nameOf = (text, { namespace, name }) => (text.includes("/") ? `${namespace}/${name}` : name).toLowerCase();

/** The hits by kind: the kind and in it the hit first whose name is nearest to the text. Pods come in this order. */
function grouped(text, nodes, { waiting, running }) {
  const near = nodes.filter((node) => node.search.includes(text)).map((node) => ({ node, at: distance(text, node.search) }));
  near.sort((a, b) => a.at - b.at);
  const pods = (name, { total, pods: found }) => ({
    name, total, at: found.length ? distance(text, nameOf(text, found[0])) : 2, hits: found.map(podHit),
  });
  const kinds = [
    pods("Waiting pods", waiting),
    { ...pods("Running pods", running), all: { pods: text, view: "pods" } },
    { name: "Nodes", total: near.length, at: near[0]?.at, hits: near.slice(0, MOST_HITS).map(nodeHit), all: { find: text, view: "cards" } },
  ].filter((kind) => kind.total).sort((a, b) => a.at - b.at);
  const most = Math.floor(MOST_HITS / kinds.length);
  return kinds.map(({ name, total, hits, all }) => {
    const shown = hits.slice(0, most);
    const rest = all && shown.length < total ? [{ all, text: `Show all ${count(total)} ${name.toLowerCase()}` }] : [];
    return { name, total, shown: shown.length, hits: [...shown, ...rest] };
  });
}

const nodeHit = ({ node }) => ({ address: nodeAddress(node.name), text: named(node.name) });

const podHit = (pod) => ({
  address: podAddress(pod.namespace, pod.name),
  text: html`${named(pod.namespace)}/${named(pod.name)}${pod.node ? html` <small>${named(pod.node)}</small>` : nothing}`,
});
