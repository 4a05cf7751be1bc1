// The last hours as two small charts: parts of the cluster, and the number of waiting pods.
import { html, nothing, svg } from "../vendor/lit-html.js";
import { hint } from "./hints.js";
import { atMinute, count, percent, plural } from "./text.js";

const WIDTH = 360;
const LEFT = 40;
const RIGHT = 6;

const allocation = (each) => (each[2] ? each[3] / each[2] : 0);
const fragmented = (each) => (each[4] > 0.005 ? each[5] / each[4] : 0);
const waiting = (each) => each[6];

/** `samples` cover all nodes; the last one is the present state. */
export function historyTemplate(samples) {
  const last = samples.at(-1);
  const most = Math.max(4, ...samples.map(waiting));
  return html`
    <p class="now">
      <span class="key"><i class="swatch line-allocation"></i>allocated <b>${percent(allocation(last))}</b></span>
      ${hint("fragmented", html`<span class="key"><i class="swatch line-fragmentation"></i>fragmented
        <b>${percent(fragmented(last))}</b> of the rest</span>`)}
    </p>
    ${chart(samples, [[allocation, "line-allocation"], [fragmented, "line-fragmentation"]], 1, 96, ["0 %", "50 %", "100 %"],
      `Allocated ${percent(allocation(last))} of healthy GPUs, ${range(samples, allocation)}. `
      + `Fragmented ${percent(fragmented(last))} of the unallocated GPUs, ${range(samples, fragmented)}.`)}
    <p class="now"><span class="key"><i class="swatch line-waiting"></i>waiting <b>${plural(waiting(last), "pod")}</b></span></p>
    ${chart(samples, [[waiting, "line-waiting"]], most, 56, ["0", count(most)],
      `${plural(waiting(last), "pod")} waiting, at most ${count(Math.max(...samples.map(waiting)))}.`)}`;
}

function range(samples, value) {
  const values = samples.map(value);
  return `between ${percent(Math.min(...values))} and ${percent(Math.max(...values))} since ${atMinute(samples[0][0])}`;
}

function chart(samples, lines, top, height, marks, text) {
  const from = samples[0][0];
  const to = Math.max(samples.at(-1)[0], from + 300);
  const x = (at) => LEFT + ((WIDTH - LEFT - RIGHT) * (at - from)) / (to - from);
  const y = (value) => 6 + (height - 12) * (1 - Math.min(1, value / top));
  return html`<svg class="chart" viewBox=${`0 0 ${WIDTH} ${height + 16}`} role="img" aria-label=${text}>
    ${marks.map((mark, index) => {
      const at = y((top * index) / (marks.length - 1));
      return svg`<line class="grid" x1=${LEFT} x2=${WIDTH - RIGHT} y1=${at} y2=${at} />
        <text class="axis" x=${LEFT - 5} y=${at + 3.5} text-anchor="end">${mark}</text>`;
    })}
    ${times(from, to).map((at, index, all) => svg`<text class="axis" x=${x(at)} y=${height + 12}
      text-anchor=${index === 0 ? "start" : index === all.length - 1 ? "end" : "middle"}>${atMinute(at)}</text>`)}
    ${lines.map(([value, kind]) => {
      const points = samples.map((each) => `${x(each[0]).toFixed(1)},${y(value(each)).toFixed(1)}`);
      const [lastX, lastY] = points.at(-1).split(",");
      return svg`${samples.length > 1 ? svg`<polyline class=${kind} points=${points.join(" ")} />` : nothing}
        <circle class=${kind} cx=${lastX} cy=${lastY} r="3" />`;
    })}
  </svg>`;
}

const times = (from, to) => (to - from < 600 ? [from, to] : [from, (from + to) / 2, to]);
