// One GPU as a bar: its promised, used, unaccounted and free memory.
import { html, nothing, svg } from "../vendor/lit-html.js";
import { ago, memory, visible } from "./text.js";

const WIDTH = 1000;

/** A bar's parts in MiB, left to right; together the device's memory. */
export function parts(device) {
  const { requested, free } = device.seen;
  return { requested, free, ...rest(device.total, requested, device.used ?? 0, device.unaccounted ?? 0, free) };
}

/** The parts that a GPU of `inventory -o json` does not name; nothing of a GPU known by labels. */
export function amountsOf({ totalMiB, requestedAtLeastMiB, usedMiB, unaccountedMiB, freeAtMostMiB }) {
  if (usedMiB === null) return { beyond: 0, kept: 0 };
  return rest(totalMiB, requestedAtLeastMiB, usedMiB, unaccountedMiB ?? 0, freeAtMostMiB);
}

/** Use by pods beyond their requests, and what is kept back. */
function rest(total, requested, used, unaccounted, free) {
  const beyond = Math.max(0, used - unaccounted - requested);
  return { unaccounted, beyond, kept: Math.max(0, total - requested - unaccounted - beyond - free) };
}

export function described(device) {
  const sick = device.sick === null ? "" : ` Unhealthy: ${visible(device.sick)}.`;
  const cordoned = device.cordoned ? " Cordoned." : "";
  const claimed = device.claimed ? " Held by claim." : "";
  const head = `GPU ${device.index}, ${visible(device.model)}:`;
  if (!device.reported) return `${head} known by labels only, its use is not known.`;
  const replicas = device.replicas ? ` ${replicasText(device)} replicas held.` : "";
  const withheld = isWithheld(device) ? " Not offered by the device plugin." : "";
  const state = `${busyText(device)}${replicas}${slotsText(device)}${claimed}${sick}${cordoned}${withheld}`;
  if (!device.known) return `${head} its memory in use is not known.${state}`;
  const { requested, free } = device.seen;
  const of = `${memory(requested)} of ${memory(device.total)} requested, ${memory(device.used)} in use`;
  const left = device.maybe ? `at most ${memory(free)} free: ${doubt(device)}` : `${memory(free)} free`;
  const { beyond, kept } = parts(device);
  const more = beyond ? `, ${memory(beyond)} beyond requests` : "";
  const others = `${memory(device.unaccounted)} unaccounted for${more}, ${left}, ${memory(kept)} kept back.`;
  return `${head} ${of}, ${others}${state}`;
}

/** Why what is left of a GPU may not be free. */
const doubt = (device) =>
  device.withheld === null ? "a pod may hold it" : "a pod may hold it, or the device plugin may not offer it";

/** Whether all that is left of a GPU is known not to be offered. */
const isWithheld = (device) => device.withheld > 0 && !device.maybe && !device.seen.free;

/** What an agent reports of a GPU's work, if it does. */
const busyText = ({ busy, celsius, watts, idle, wasted }) => [
  busy === null ? "" : ` ${busy} % busy.`,
  wasted ? ` Idle: its pods have computed nothing${isLongIdle(idle) ? ` for ${ago(idle)}` : ""}.`
    : isLongIdle(idle) ? ` Has computed nothing for ${ago(idle)}.` : "",
  celsius === null ? "" : ` ${celsius} °C.`,
  watts === null ? "" : ` ${watts} W.`,
].join("");

/** The server's `idle.after` in seconds: shorter pauses are usual. */
let idleAfterS = Infinity;
export const setIdleAfter = (seconds) => {
  idleAfterS = seconds ?? Infinity;
};
export const isLongIdle = (seconds) => (seconds ?? -1) >= idleAfterS;

const replicasText = (device) =>
  `${device.maybe ? "≥ " : ""}${Math.round(device.seen.held * device.replicas)} of ${device.replicas}`;

function slotsText(device) {
  if (!device.mig) return "";
  const each = device.mig.instances.map(([start, , profile, held]) =>
    `${visible(profile)}${start === null ? "" : ` at ${start}`} ${held === null ? "may be held" : held ? "held" : "free"}`);
  return ` MIG: ${each.join(", ") || "no instances"}.`;
}

function memoryBar(device) {
  const all = parts(device);
  let at = 0;
  const rect = (kind) => {
    const x = at;
    const width = (WIDTH * all[kind]) / Math.max(1, device.total);
    at += width;
    return width > 0.5 ? svg`<rect class=${kind} x=${x.toFixed(1)} width=${width.toFixed(1)} height="16" />` : nothing;
  };
  const used = Math.min(WIDTH, (WIDTH * (device.used ?? 0)) / Math.max(1, device.total));
  return html`<svg class="bar" viewBox="0 0 ${WIDTH} 16" preserveAspectRatio="none" aria-hidden="true">
    ${svg`<rect class="free" width=${WIDTH} height="16" />${["requested", "unaccounted", "beyond"].map(rect)}
      ${device.maybe ? stripes(at, (WIDTH * all.free) / Math.max(1, device.total)) : nothing}
      ${(at += (WIDTH * all.free) / Math.max(1, device.total), rect("kept"))}
      <rect class="used" y="12" width=${used.toFixed(1)} height="4" />`}
  </svg>`;
}

/** The part of a bar that a pod may hold. */
function stripes(from, width) {
  const step = 60;
  return Array.from({ length: Math.floor(width / step) }, (_, at) =>
    svg`<rect class="maybe" x=${(from + at * step).toFixed(1)} width=${step / 2} height="16" />`);
}

function slots(device) {
  const { grid, instances } = device.mig;
  const placed = instances.filter(([start]) => start !== null);
  const loose = instances.filter(([start]) => start === null);
  const unit = 100 / Math.max(1, grid);
  return html`<div class="slots" aria-hidden="true">
    ${Array.from({ length: grid }, (_, at) => html`<i .style=${`left:${at * unit}%;width:${unit}%`}></i>`)}
    ${placed.map(
      ([start, size, profile, held]) =>
        html`<span class=${held === null ? "perhaps" : held ? "held" : "open"} .style=${`left:${start * unit}%;width:${size * unit}%`}>${shortProfile(profile)}</span>`,
    )}
    ${loose.length
      ? html`<b>${loose.some(([, , , held]) => held === null) ? "≥ " : ""}${loose.filter(([, , , held]) => held).length} of ${loose.length} held</b>` : nothing}
  </div>`;
}

const shortProfile = (profile) => visible(profile).split(".")[0];

/** One line: number, bar, free memory. */
export function gpuLine(device) {
  const classes = `gpu${device.sick === null ? "" : " sick"}${device.cordoned ? " cordoned" : ""}`;
  const { free } = device.seen;
  const amount = device.known ? `${device.maybe ? "≤ " : ""}${memory(free)}` : "?";
  let right = html`<span class=${free ? "amount" : "amount none"}>${amount}</span>`;
  if (device.sick !== null) right = html`<span class="amount bad">✕ sick</span>`;
  else if (device.cordoned) right = html`<span class="amount warn">⊘ closed</span>`;
  else if (isWithheld(device)) right = html`<span class="amount warn">⊘ not offered</span>`;
  else if (device.replicas) {
    right = html`<span class="amount">${replicasText(device)}</span>`;
  }
  const bar = device.mig ? slots(device) : device.known ? memoryBar(device) : html`<div class="bar unknown"></div>`;
  const measured = device.wasted || device.busy !== null;
  const busy = measured ? html`<span class="busy">${device.wasted ? "idle" : `${device.busy} %`}</span>` : nothing;
  return html`<div class=${`${classes}${measured ? " measured" : ""}`} role="img" aria-label=${described(device)}
    data-hint=${described(device)}><span class="index">${device.index}</span>${bar}${busy}${right}</div>`;
}
