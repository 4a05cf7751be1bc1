// The nodes as cards or as a table: only visible ones are in the document.
import { html, nothing, render } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { gpuLine } from "./bars.js";
import { BY_ALLOCATABLE, kindText } from "./cluster.js";
import { hint } from "./hints.js";
import { count, freeText, memory, named, percent, plural, unaccountedText, visible, withheldText } from "./text.js";

const CARD_WIDTH = 270;
const GAP = 12;
const CARD_HEAD = 66;
const NOTE = 20;
const GPU_LINE = 21;
const TABLE_LINE = 34;
const HEADS = [
  ["Node"], ["GPUs"], ["Pool"], ["Allocated", "allocated"], ["Requested", "requested"], ["In use", "used"],
  ["Unaccounted", "unaccounted"], ["Free", "free"], ["State"],
];
// Rows above and below the visible ones, so that scrolling meets existing rows.
const AHEAD = 300;

export class NodeList {
  lastMs = 0;
  drawn = 0;
  #root;
  #nodes = [];
  // Null before the first list.
  #view = null;
  #tops = [0];
  #across = 1;
  #active = null;
  #indexOf = new Map();

  constructor(root, onOpen) {
    this.#root = root;
    this.onOpen = onOpen;
    this.port = document.createElement("div");
    this.port.className = "port";
    root.append(this.port);
    this.port.addEventListener("scroll", () => requestAnimationFrame(() => this.#draw()), { passive: true });
    this.port.addEventListener("keydown", (event) => this.#key(event));
    this.port.addEventListener("focusin", (event) => {
      this.#active = event.target.closest("[data-name]")?.dataset.name ?? this.#active;
    });
    new ResizeObserver(() => this.#redraw()).observe(this.port);
  }

  /** Show these nodes, in this order. */
  show(nodes, view) {
    if (view !== this.#view) this.port.scrollTop = 0;
    this.#nodes = nodes;
    this.#view = view;
    this.#indexOf = new Map(nodes.map((node, index) => [node.name, index]));
    this.#redraw();
  }

  #redraw() {
    this.#lay();
    this.#draw();
  }

  /** Bring a node into sight and put the focus there. */
  go(name) {
    const index = this.#indexOf.get(name);
    if (index === undefined) return;
    this.#active = name;
    const line = Math.floor(index / this.#across);
    const top = this.#tops[line];
    const bottom = this.#tops[line + 1];
    const head = this.#view === "table" ? TABLE_LINE : 0;
    const { scrollTop, clientHeight } = this.port;
    if (top < scrollTop) this.port.scrollTop = top;
    else if (bottom + head > scrollTop + clientHeight) this.port.scrollTop = bottom + head - clientHeight;
    // On a phone the list is below the map.
    this.port.scrollIntoView({ block: "nearest" });
    this.#draw();
    [...this.port.querySelectorAll("[data-name]")]
      .find((each) => each.dataset.name === name)?.querySelector("button").focus({ preventScroll: true });
  }

  #lay() {
    const width = this.port.clientWidth - 2 * GAP;
    this.#across = this.#view === "table" ? 1 : Math.max(1, Math.floor((width + GAP) / (CARD_WIDTH + GAP)));
    this.#tops = [this.#view === "table" ? 0 : GAP];
    for (let at = 0; at < this.#nodes.length; at += this.#across) {
      let height = TABLE_LINE;
      if (this.#view !== "table") {
        const line = this.#nodes.slice(at, at + this.#across);
        height = CARD_HEAD + GAP + Math.max(...line.map((node) => node.devices.length * GPU_LINE + notes(node).length * NOTE));
      }
      this.#tops.push(this.#tops.at(-1) + height);
    }
  }

  #draw() {
    const started = performance.now();
    const { scrollTop, clientHeight } = this.port;
    const from = lineAt(this.#tops, scrollTop - AHEAD) * this.#across;
    const to = Math.min(this.#nodes.length, (lineAt(this.#tops, scrollTop + clientHeight + AHEAD) + 1) * this.#across);
    const inSight = [];
    for (let index = from; index < to; index += 1) inSight.push(index);
    const active = this.#indexOf.get(this.#active);
        // The focused element keeps the focus, also out of sight.
    if (active !== undefined && (active < from || active >= to) && this.port.contains(document.activeElement)) inSight.push(active);
    const entry = active !== undefined && inSight.includes(active) ? active : inSight[0];
    render(this.#view === "table" ? this.#table(inSight, entry) : this.#cards(inSight, entry), this.port);
    this.drawn = inSight.length;
    this.lastMs = performance.now() - started;
  }

  #cards(inSight, entry) {
    if (!this.#nodes.length) return html`<p class="empty">${this.#view === null ? "Reading" : "No node matches."}</p>`;
    const width = Math.floor((this.port.clientWidth - 2 * GAP - (this.#across - 1) * GAP) / this.#across);
    return html`<ul class="cards" aria-label="Nodes" .style=${`height:${this.#tops.at(-1)}px`}>
      ${repeat(inSight, (index) => this.#nodes[index].name, (index) => {
        const line = Math.floor(index / this.#across);
        const x = GAP + (index % this.#across) * (width + GAP);
        const height = this.#tops[line + 1] - this.#tops[line] - GAP;
        return this.#card(this.#nodes[index], index, index === entry,
          `transform:translate(${x}px,${this.#tops[line]}px);width:${width}px;height:${height}px`);
      })}</ul>`;
  }

  #card(node, index, entered, style) {
    return html`<li class=${`card ${node.state.toLowerCase()}${node.sum.sick ? " sick" : ""}`} data-name=${node.name} .style=${style}
      aria-setsize=${this.#nodes.length} aria-posinset=${index + 1}>
      <h3><button type="button" tabindex=${entered ? 0 : -1} aria-label=${cardText(node)}
        @click=${() => this.onOpen(node.name)}>${named(node.name)}</button></h3>
      <p class="about"><span>${about(node)}</span>${badges(node)}</p>
      ${node.devices.map(gpuLine)}
      ${notes(node).map((note) => html`<p class="notes" title=${note}>${note}</p>`)}
    </li>`;
  }

  #table(inSight, entry) {
    if (!this.#nodes.length) return html`<p class="empty">${this.#view === null ? "Reading" : "No node matches."}</p>`;
    return html`<div class="table" role="table" aria-label="Nodes" aria-rowcount=${this.#nodes.length + 1}>
      <div class="line head" role="row" aria-rowindex="1" data-hints>
        ${HEADS.map(([head, term]) => html`<span role="columnheader">${term ? hint(term, head, term === "allocated") : head}</span>`)}</div>
      <div class="lines" role="rowgroup" .style=${`height:${this.#tops.at(-1)}px`}>
      ${repeat(inSight, (index) => this.#nodes[index].name, (index) => {
        const node = this.#nodes[index];
        const { sum } = node;
        const amounts = [memory(sum.requested), memory(sum.used), unaccountedText(sum), freeText(sum)];
        return html`<div class=${`line ${node.state.toLowerCase()}`} role="row" aria-rowindex=${index + 2} data-name=${node.name}
          .style=${`transform:translateY(${this.#tops[index]}px)`}>
          <span role="rowheader"><button type="button" tabindex=${index === entry ? 0 : -1}
            @click=${() => this.onOpen(node.name)}>${named(node.name)}</button></span>
          <span role="cell">${devicesText(node)}</span>
          <span role="cell">${node.pool ? named(node.pool) : "–"}</span>
          <span role="cell" class="figure">${node.held === null ? "–" : percent(node.held)}</span>
          ${amounts.map((text) => html`<span role="cell" class="figure">${sum.total ? text : "?"}</span>`)}
          <span role="cell">${badges(node)}</span></div>`;
      })}</div></div>`;
  }

  #key(event) {
    if (!event.target.closest("[data-name]") || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.#indexOf.get(this.#active) ?? 0;
    const page = this.#across * Math.max(1, Math.floor(this.port.clientHeight / (this.#tops[1] - this.#tops[0])));
    const to = {
      ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + this.#across, ArrowUp: at - this.#across,
      PageDown: at + page, PageUp: at - page, Home: 0, End: this.#nodes.length - 1,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.go(this.#nodes[Math.min(this.#nodes.length - 1, Math.max(0, to))].name);
  }
}

/** The line that a height is in. */
function lineAt(tops, y) {
  let low = 0;
  let high = tops.length - 2;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle] <= y) low = middle;
    else high = middle - 1;
  }
  return Math.max(0, low);
}

function devicesText(node) {
  const by = new Map();
  for (const device of node.devices) by.set(device.model, (by.get(device.model) ?? 0) + 1);
  return [...by].map(([model, number]) => `${count(number)} × ${visible(model)}`).join(", ") || "no GPU";
}

function about(node) {
  const pool = node.pool ? html` · ${named(node.pool)}` : nothing;
  return html`${devicesText(node)}${node.kind === "labels" ? nothing : ` · ${kindText(node.kind)}`}${pool}`;
}

const badge = (kind, text) => html`<b class=${`badge ${kind}`}>${text}</b>`;

function badges(node) {
  const all = [];
  if (node.state === "Missing") all.push(badge("bad", "✕ Missing"));
  if (node.state === "Stale") all.push(badge("warn", "◷ Stale"));
  if (node.sum.sick) all.push(badge("bad", `✕ ${count(node.sum.sick)} sick`));
  if (node.kind === "labels") all.push(badge("plain", "labels only"));
  if (node.wasted) all.push(badge("plain", `${count(node.wasted)} idle`));
  for (const mark of node.marks) all.push(badge("plain", visible(mark)));
  return all;
}

function notes(node) {
  const all = [];
  all.push(...node.unattributed.map(visible));
  if (node.sum.withheld) all.push(withheldText(node.sum));
  const taken = node.marks.includes(BY_ALLOCATABLE)
    ? "whole GPUs and MIG instances are placed here by allocatable alone" : "nothing is placed here";
  if (node.state === "Missing") all.push(`no report: ${taken}`);
  if (node.state === "Stale") all.push(`the last report is old: ${taken}`);
  return all;
}

function cardText(node) {
  const use = node.held === null ? "nothing to give" : `${percent(node.held)} allocated`;
  const withheld = node.sum.withheld ? [withheldText(node.sum)] : [];
  const trouble = [...node.unattributed.map(visible), ...withheld, node.state === "Fresh" ? "" : node.state.toLowerCase(), node.sum.sick ? plural(node.sum.sick, "sick GPU") : ""].filter(Boolean);
  return [visible(node.name), devicesText(node), use, ...trouble].join(", ");
}
