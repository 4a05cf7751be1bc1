// All nodes at once: a group for each pool or model, a cell for each node, one canvas per group.
import { html, nothing, render } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { total } from "./cluster.js";
import { grouped, lay, ordered, partIn, usualGrouping } from "./groups.js";
import { hint } from "./hints.js";
import { count, freeText, named, percent, plural, visible, withheldText } from "./text.js";

const STEPS = 5;
// Marks of trouble are at least this large, also where cells are smaller.
const LEAST_MARK = 8;

export class NodeMap {
  lastMs = 0;
  grouping = "model";
  #root;
  #groups = [];
  #size = 0;
  #colours = null;
  #usual = null;

  /** `onGroup` and `onTrouble` receive a group; `onGroup` also whether the group is chosen now. */
  constructor(root, legend, { onNode, onGroup, onTrouble }) {
    Object.assign(this, { onNode, onGroup, onTrouble });
    this.#root = root;
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.hidden = true;
    document.body.append(this.tip);
    render(legendTemplate(), legend);
  }

  /** Colours come from the style sheet; they change with the scheme. */
  recolour() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    this.#colours = {
      ramp: Array.from({ length: STEPS }, (_, step) => read(`--ramp-${step}`)),
      surface: read("--surface"), bad: read("--bad"), muted: read("--muted"), border: read("--border-strong"),
    };
  }

  /** Draw all nodes; those not in `shown` are faint. `filters` have the grouping and the order, if chosen. */
  draw(nodes, shown, filters) {
    const started = performance.now();
    if (!this.#colours) this.recolour();
    // Stays while the page is open: a map that changes its groups under the eye would confuse.
    if (nodes.length) this.#usual ??= usualGrouping(nodes);
    this.grouping = filters.group || this.#usual || "model";
    this.#groups = grouped(nodes, this.grouping);
    for (const group of this.#groups) {
      group.nodes = ordered(group, filters.order);
      group.sum = total(group.nodes.filter((node) => shown.has(node)).map((node) => partIn(group, node)));
      group.troubles = troubleTexts(group);
    }
    this.#size = lay(this.#groups, this.#root.clientWidth || 800);
    render(this.#template(filters, shown), this.#root);
    const canvases = this.#root.querySelectorAll("canvas");
    this.#groups.forEach((group, index) => this.#drawGroup(canvases[index], group, shown));
    this.lastMs = performance.now() - started;
  }

  #template(filters, shown) {
    if (!this.#groups.length) return html`<p class="empty">No node with GPUs yet.</p>`;
    const size = this.#size;
    return html`<div class="groups">${repeat(this.#groups, (group) => `${group.by} ${group.key}`, (group) => {
      const { sum, other } = group;
      const chosen = !other && group.key && filters[group.by] === group.key;
      const part = sum.well ? [percent(sum.held / sum.well)] : [];
      const about = !group.nodes.some((node) => shown.has(node)) ? ["none shown"] : group.by === "pool" ? [...part, `${count(sum.gpus)} × ${modelsText(group)}`] : [plural(sum.gpus, "GPU"), ...part];
      return html`<div class="group" .style=${`width:${group.width}px`}>
        <button type="button" class="group-head" aria-pressed=${chosen ? "true" : "false"} ?disabled=${other || !group.key}
          title=${about.join(" · ")} @click=${() => this.onGroup(group, !chosen)}>
          <strong>${titleOf(group)}</strong><span>${about.map((text, at) => html`${at ? " · " : ""}<bdi>${text}</bdi>`)}</span></button>
        <canvas role="img" aria-label=${groupText(group)} .group=${group}
          .style=${`width:${group.across * size}px;height:${group.down * size}px`}
          @mousemove=${this.#point} @mouseleave=${this.#leave} @click=${this.#click}></canvas>
        ${group.troubles.length ? html`<button type="button" class=${`trouble${sum.sick || sum.missing ? "" : " warn"}`} title=${`Show only these: ${troubles(group).join(", ")}`}
          @click=${() => this.onTrouble(group)}>${group.troubles.map((text) => html`<span>${text}</span> `)}</button>` : nothing}
      </div>`;
    })}</div>`;
  }

  #drawGroup(canvas, group, shown) {
    const scale = window.devicePixelRatio || 1;
    const size = this.#size;
    const { across, down } = group;
    const width = Math.round(across * size * scale);
    const height = Math.round(down * size * scale);
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, across * size, down * size);
    const inner = size - (size > 6 ? 2 : 1);
    const at = (index) => [(index % across) * size, Math.floor(index / across) * size];
    const troubled = [];
    group.nodes.forEach((node, index) => {
      const sum = partIn(group, node);
      pen.globalAlpha = shown.has(node) ? 1 : 0.12;
      if (sum.sick || !sum.well || node.state === "Stale") troubled.push([node, sum, index]);
      if (sum.well) this.#drawCell(pen, node, sum, ...at(index), inner);
    });
    // Over the other cells, because small cells have larger marks.
    for (const [node, sum, index] of troubled) {
      pen.globalAlpha = shown.has(node) ? 1 : 0.12;
      this.#drawMarks(pen, node, sum, ...at(index), inner);
    }
    pen.globalAlpha = 1;
  }

  #drawCell(pen, node, sum, x, y, size) {
    const { ramp, border } = this.#colours;
    pen.fillStyle = ramp[Math.min(STEPS - 1, Math.floor((sum.held / sum.well) * STEPS))];
    pen.fillRect(x, y, size, size);
    if (node.kind === "labels") {
      pen.strokeStyle = border;
      pen.lineWidth = 1;
      pen.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    }
  }

  #drawMarks(pen, node, sum, x, y, size) {
    const { surface, bad, muted } = this.#colours;
    pen.lineWidth = 1;
    if (!sum.well) {
      // To the right and down, at the edge of the canvas to the left and up.
      const side = Math.max(size, LEAST_MARK);
      const { width, height } = pen.canvas;
      const left = Math.min(x, width / pen.getTransform().a - side);
      const top = Math.min(y, height / pen.getTransform().d - side);
      pen.fillStyle = surface;
      pen.fillRect(left, top, side, side);
      pen.strokeStyle = bad;
      pen.strokeRect(left + 0.5, top + 0.5, side - 1, side - 1);
      line(pen, left + 1, top + side - 1, left + side - 1, top + 1);
      return;
    }
    if (node.state === "Stale") {
      pen.strokeStyle = muted;
      pen.lineWidth = Math.max(1, size / 8);
      for (const part of [0.4, 0.8, 1.2, 1.6]) {
        const reach = part * size;
        line(pen, x + Math.max(0, reach - size), y + Math.min(size, reach), x + Math.min(size, reach), y + Math.max(0, reach - size));
      }
    }
    if (sum.sick) {
      const side = Math.max(LEAST_MARK, size * 0.62);
      const right = Math.max(x + size, side);
      const bottom = Math.max(y + size, side);
      pen.fillStyle = bad;
      pen.strokeStyle = surface;
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(right, bottom - side);
      pen.lineTo(right, bottom);
      pen.lineTo(right - side, bottom);
      pen.closePath();
      pen.fill();
      line(pen, right, bottom - side, right - side, bottom);
    }
  }

  #under(event) {
    const { group } = event.currentTarget;
    const column = Math.floor(event.offsetX / this.#size);
    if (column < 0 || column >= group.across) return null;
    return group.nodes[Math.floor(event.offsetY / this.#size) * group.across + column] ?? null;
  }

  #point = (event) => {
    const node = this.#under(event);
    this.tip.hidden = !node;
    if (!node) return;
    const { sum } = node;
    const state = [node.state === "Fresh" ? "" : node.state, sum.sick ? plural(sum.sick, "sick GPU") : ""];
    const free = sum.total ? `${freeText(sum)} free` : "use not known";
    const use = node.held === null ? "nothing to give" : `${percent(node.held)} allocated, ${free}`;
    const withheld = sum.withheld ? [withheldText(sum)] : [];
    const known = [...node.unattributed.map(visible), ...withheld].map((each) => html`<br>${each}`);
    render(html`<strong>${visible(node.name)}</strong><br>${plural(node.devices.length, "GPU")}, ${use}${known}${state
      .filter(Boolean).map((each) => html`<br><em class="bad">${each}</em>`)}`, this.tip);
    const x = Math.min(event.clientX + 14, innerWidth - this.tip.offsetWidth - 8);
    const y = event.clientY + 18 + this.tip.offsetHeight > innerHeight ? event.clientY - this.tip.offsetHeight - 10 : event.clientY + 18;
    this.tip.style.transform = `translate(${x}px, ${y}px)`;
  };

  #leave = () => (this.tip.hidden = true);

  #click = (event) => {
    const node = this.#under(event);
    if (node) this.onNode(node.name);
  };
}

function line(pen, fromX, fromY, toX, toY) {
  pen.beginPath();
  pen.moveTo(fromX, fromY);
  pen.lineTo(toX, toY);
  pen.stroke();
}

const NAMELESS = { model: "other models", pool: "other pools" };

function titleOf(group) {
  if (group.other) return NAMELESS[group.by];
  return group.key ? named(group.key) : "no pool";
}

/** The models of a pool: the one on most nodes, and how many others. */
function modelsText({ models }) {
  const more = models.length > 1 ? ` +${models.length - 1}` : "";
  return models.length ? `${visible(models[0])}${more}` : "no GPU";
}

const troubleTexts = ({ sum }) => [
  sum.sick ? `✕ ${count(sum.sick)} sick` : "",
  sum.missing ? `⊠ ${count(sum.missing)} missing` : "",
  sum.stale ? `◷ ${count(sum.stale)} stale` : "",
].filter(Boolean);

const troubles = ({ sum }) => [
  sum.sick ? plural(sum.sick, "sick GPU") : "",
  sum.missing ? plural(sum.missing, "missing node") : "",
  sum.stale ? plural(sum.stale, "stale node") : "",
].filter(Boolean);

function groupText(group) {
  const name = group.other ? NAMELESS[group.by] : visible(group.key || "no pool");
  return `${name}: ${plural(group.nodes.length, "node")}, ${troubles(group).join(", ") || "nothing amiss"}. The list of nodes has each of them.`;
}

const MARKS = { sick: "sick GPU", stale: "stale", missing: "missing, or all sick", labels: "known by labels" };
const ORDERS = { state: "state", load: "load", name: "name" };
const GROUPINGS = { model: "model", pool: "pool" };

/** The choice of grouping and order. */
export function mapViewTemplate(filters, grouping, change) {
  const select = (name, label, options, chosen) => html`<label>${label}
    <select name=${name} @change=${(event) => change(name, event.target.value)}>
      ${Object.entries(options).map(([key, text]) => html`<option value=${key} ?selected=${chosen === key}>${text}</option>`)}
    </select></label>`;
  return html`${select("group", "by", GROUPINGS, grouping)} ${select("order", "first by", ORDERS, filters.order)}`;
}

function legendTemplate() {
  return html`<span>allocated 0 %</span>
    <span class="ramp" aria-hidden="true">${Array.from({ length: STEPS }, (_, step) => html`<i class=${`ramp-${step}`}></i>`)}</span>
    <span>100 %</span>
    ${["sick", "stale", "missing", "labels"].map((term, index) =>
      hint(term, html`<span class="key"><i class=${`mark ${term}-mark`}></i>${MARKS[term]}</span>`, index === 0))}`;
}
