// All nodes at once: a group for each model, a cell for each node, one canvas per group.
import { html, nothing, render } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { total } from "./cluster.js";
import { count, freeText, named, percent, plural, visible } from "./text.js";

const SIZES = [22, 18, 16, 14, 12, 10, 9, 8, 7, 6, 5, 4];
const MOST_HEIGHT = 260;
const MOST_CELLS_HEIGHT = 190;
const HEAD_HEIGHT = 44;
const BLOCK_WIDTH = 172;
const LEAST_BLOCK_WIDTH = 130;
// If the model names alone are too high, larger cells may add this much.
const FOR_LARGER_CELLS = 1.25;
const GAP = 18;
const MOST_GROUPS = 24;
const STEPS = 5;

export class NodeMap {
  lastMs = 0;
  #root;
  #groups = [];
  #size = SIZES[0];
  #colours = null;

  constructor(root, legend, { onNode, onModel }) {
    this.#root = root;
    this.onNode = onNode;
    this.onModel = onModel;
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

  /** Draw all nodes; those not in `shown` are faint. */
  draw(nodes, shown, chosenModel) {
    const started = performance.now();
    if (!this.#colours) this.recolour();
    this.#groups = grouped(nodes);
    this.#size = lay(this.#groups, this.#root.clientWidth || 800);
    render(this.#template(chosenModel, shown), this.#root);
    for (const group of this.#groups) this.#drawGroup(group, shown);
    this.lastMs = performance.now() - started;
  }

  #template(chosenModel, shown) {
    if (!this.#groups.length) return html`<p class="empty">No node with GPUs yet.</p>`;
    const size = this.#size;
    return html`<div class="groups">${repeat(this.#groups, (group) => group.model, (group) => {
      const sum = total(group.nodes.filter((node) => shown.has(node)).map((node) => partIn(group, node)));
      return html`<div class="group" .style=${`width:${group.width}px`}>
        <button type="button" aria-pressed=${group.model === chosenModel ? "true" : "false"}
          ?disabled=${group.other} @click=${() => this.onModel(group.model)}>
          <strong>${group.other ? "other models" : named(group.model)}</strong>
          <span>${plural(sum.gpus, "GPU")}${sum.well
            ? ` · ${percent(sum.held / sum.well)}` : nothing}${sum.sick
            ? html` · <em class="bad">${count(sum.sick)} sick</em>` : nothing}</span>
        </button>
        <canvas role="img" aria-label=${groupText(group, sum)} .group=${group}
          .style=${`width:${group.across * size}px;height:${group.down * size}px`}
          @mousemove=${this.#point} @mouseleave=${this.#leave} @click=${this.#click}></canvas>
      </div>`;
    })}</div>`;
  }

  #drawGroup(group, shown) {
    const canvas = [...this.#root.querySelectorAll("canvas")].find((each) => each.group === group);
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
    group.nodes.forEach((node, index) => {
      pen.globalAlpha = shown.has(node) ? 1 : 0.12;
      this.#drawCell(pen, node, partIn(group, node), (index % across) * size, Math.floor(index / across) * size, inner);
    });
    pen.globalAlpha = 1;
  }

  #drawCell(pen, node, sum, x, y, size) {
    const { ramp, surface, bad, muted, border } = this.#colours;
    if (!sum.well) {
      pen.strokeStyle = bad;
      pen.lineWidth = 1;
      pen.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
      line(pen, x + 1, y + 1, x + size - 1, y + size - 1);
      return;
    }
    pen.fillStyle = ramp[Math.min(STEPS - 1, Math.floor((sum.held / sum.well) * STEPS))];
    pen.fillRect(x, y, size, size);
    if (node.kind === "labels") {
      pen.strokeStyle = border;
      pen.lineWidth = 1;
      pen.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
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
      const side = Math.max(3, size * 0.62);
      pen.fillStyle = bad;
      pen.strokeStyle = surface;
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(x + size, y + size - side);
      pen.lineTo(x + size, y + size);
      pen.lineTo(x + size - side, y + size);
      pen.closePath();
      pen.fill();
      if (size > 6) line(pen, x + size, y + size - side, x + size - side, y + size);
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
    const free = node.kind === "labels" ? "use not known" : `${freeText(sum)} free`;
    const use = node.held === null ? "nothing to give" : `${percent(node.held)} allocated, ${free}`;
    const known = node.unattributed.map((each) => html`<br>${visible(each)}`);
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

/** A node's part in a group: its GPUs of the group's models. */
const partIn = (group, node) => node.sumOf(group.models);

/** Nodes by the models of their GPUs, the largest group first; many small groups are joined. */
function grouped(nodes) {
  const byModel = new Map();
  for (const node of nodes) {
    for (const model of node.models.length ? node.models : ["no GPU"]) {
      if (!byModel.has(model)) byModel.set(model, { model, models: [model], nodes: [], other: false });
      byModel.get(model).nodes.push(node);
    }
  }
  const groups = [...byModel.values()].sort((a, b) => b.nodes.length - a.nodes.length || (a.model < b.model ? -1 : 1));
  if (groups.length <= MOST_GROUPS) return groups;
  const rest = groups.splice(MOST_GROUPS - 1);
  const together = [...new Set(rest.flatMap((group) => group.nodes))];
  return [...groups, { model: "", models: rest.map((group) => group.model), nodes: together, other: true }];
}

/** Give each group its columns and rows; returns the largest cell size that keeps all groups visible. */
function lay(groups, width) {
  const least = leastHeight(groups, width, SIZES.at(-1)).height;
  const most = Math.max(MOST_HEIGHT, least * FOR_LARGER_CELLS);
  for (const size of SIZES) {
    const { height, rows } = leastHeight(groups, width, size);
    if (height <= most) {
      arrange(groups, width, size, rows);
      return size;
    }
  }
}

/** The number of rows that gives the lowest height of the groups. */
function leastHeight(groups, width, size) {
  let best = { height: Infinity, rows: 1 };
  for (let rows = 1; rows <= Math.max(1, Math.floor(MOST_CELLS_HEIGHT / size)); rows += 1) {
    const height = arrange(groups, width, size, rows);
    if (height < best.height) best = { height, rows };
  }
  return best;
}

/** Groups of at most so many rows side by side, line by line; returns their height. */
function arrange(groups, width, size, rows) {
  const most = Math.max(1, Math.floor(width / size));
  // Two side by side on a phone.
  const block = Math.min(width, BLOCK_WIDTH, Math.max(LEAST_BLOCK_WIDTH, Math.floor((width - GAP) / 2)));
  let [sum, left, line] = [0, 0, 0];
  for (const group of groups) {
    const number = group.nodes.length;
    group.across = Math.min(most, Math.max(Math.floor(block / size), Math.ceil(number / rows)));
    group.down = Math.ceil(number / group.across);
    group.width = Math.max(block, group.across * size);
    if (group.width > left) {
      sum += line;
      [left, line] = [width, 0];
    }
    left -= group.width + GAP;
    line = Math.max(line, HEAD_HEIGHT + group.down * size + GAP);
  }
  return sum + line - GAP;
}

function groupText(group, sum) {
  const name = group.other ? "other models" : visible(group.model);
  const trouble = [
    sum.sick ? plural(sum.sick, "sick GPU") : "",
    sum.stale ? plural(sum.stale, "stale node") : "",
    sum.missing ? plural(sum.missing, "missing node") : "",
  ].filter(Boolean);
  return `${name}: ${plural(group.nodes.length, "node")}, ${trouble.join(", ") || "nothing amiss"}. The list of nodes has each of them.`;
}

function legendTemplate() {
  return html`<span>allocated 0 %</span>
    <span class="ramp" aria-hidden="true">${Array.from({ length: STEPS }, (_, step) => html`<i class=${`ramp-${step}`}></i>`)}</span>
    <span>100 %</span>
    <span class="key"><i class="mark sick-mark"></i>sick GPU</span>
    <span class="key"><i class="mark stale-mark"></i>stale</span>
    <span class="key"><i class="mark missing-mark"></i>missing, or all sick</span>
    <span class="key"><i class="mark labels-mark"></i>known by labels</span>`;
}
