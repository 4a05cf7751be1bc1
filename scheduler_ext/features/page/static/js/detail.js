// One node in full: every GPU with its UUID and its holders.
import { html, nothing } from "../vendor/lit-html.js";
import { amountsOf, isLongIdle } from "./bars.js";
import { hint } from "./hints.js";
import { nodeLink, podLink } from "./pod.js";
import { ago, memory, named, visible } from "./text.js";

export const node = {
  path: ({ name }) => `node?name=${encodeURIComponent(name)}`,
  gone: "There is no node of this name. It may have been removed.",
  body: full,
};

function full({ node, ledger }, { gpu }) {
  if (!node) return html`<p class="empty">No GPU is known here.</p>`;
  const heads = headsOf(node.devices);
  const unknown = gpu !== null && !node.devices.some((device) => device.index === gpu);
  return html`${unknown ? html`<p class="warn">This node has no GPU ${gpu}.</p>` : nothing}<p class="about">${node.state}: ${knownBy(node)}${notesOf(node).map((text) => `; ${visible(text)}`).join("")}</p>
    <table class="gpus" role="table" aria-label="GPUs"><thead role="rowgroup"><tr role="row" data-hints>${heads.map(([text, term], index) =>
      html`<th role="columnheader" scope="col">${term ? hint(term, text, index === 2) : text}</th>`)}</tr></thead>
    <tbody role="rowgroup">${node.devices.map((device) => deviceRow(node, device, ledger.devices[device.uuid]?.holdings ?? [], heads, gpu))}</tbody></table>
    ${ledger.unknownDevices.length ? html`<h3>Held, which GPU is not known</h3><ul>${ledger.unknownDevices.map((each) =>
      html`<li>${holder(each)}: ${each.count} × ${visible(each.resource)}${stateOf(each)}</li>`)}</ul>` : nothing}`;
}

const notesOf = ({ unattributed, notOffered, change, layoutProblem }) =>
  [...unattributed.map(({ text }) => text), ...notOffered.map(({ text }) => text), change, layoutProblem].filter(Boolean);

function knownBy({ source, ageSeconds }) {
  if (source === "report") return `its agent reported ${ago(ageSeconds)} ago`;
  return source === "slices" ? "known by its ResourceSlices" : "known by its labels only";
}

/** The columns; only values that an agent reports have one. */
const headsOf = (devices) => [
  ["GPU"], ["Model"], ["Requested", "requested"], ["In use", "used"], ["Unaccounted", "unaccounted"], ["Free", "free"],
  ...(devices.some((device) => known(device.utilizationPercent)) ? [["Busy", "busy"]] : []),
  ...(devices.some((device) => known(device.temperatureCelsius)) ? [["Temperature", "temperature"]] : []),
  ...(devices.some((device) => known(device.powerWatts)) ? [["Power", "power"]] : []),
  ["Held by", "holders"],
];

/** Why the clocks of a GPU are lower than they could be. */
const REASONS = {
  PowerCap: "power limit", HardwareSlowdown: "slowed by hardware", SyncBoost: "synchronised clocks",
  ThermalSlowdown: "slowed by heat", HardwareThermalSlowdown: "slowed by heat", PowerBrake: "power brake",
};

/** Whether it is not known if a GPU or an instance of it is free. */
const isUncertain = (device) =>
  [device, ...device.mig.instances].some((part) => part.mayBeHeld || part.offered === null);

const known = (value) => value !== null && value !== undefined;

function deviceRow(node, device, holdings, heads, gpu) {
  const { requestedAtLeastMiB, usedMiB, unaccountedMiB, freeAtMostMiB } = device.memory;
  const { beyond, kept } = amountsOf(device.memory);
  const cells = {
    Requested: device.mayBeHeld ? `≥ ${memory(requestedAtLeastMiB)}` : memory(requestedAtLeastMiB),
    "In use": html`${memory(usedMiB)}${beyond ? html`<br><small>${memory(beyond)} ${hint("beyond", "beyond requests")}</small>` : nothing}`,
    Unaccounted: memory(unaccountedMiB),
    Free: html`${isUncertain(device) ? "≤ " : ""}${memory(freeAtMostMiB)}${kept ? html`<br><small>${memory(kept)} ${hint("kept", "kept back")}</small>` : nothing}`,
    Busy: known(device.utilizationPercent) ? html`${device.utilizationPercent} %<i class="level"
      .style=${`background-size:${device.utilizationPercent}% 100%`}></i>${isLongIdle(device.idleSeconds)
      ? html`<small>${hint("idle", `idle for ${ago(device.idleSeconds)}`)}</small>` : nothing}` : "unknown",
    Temperature: known(device.temperatureCelsius) ? `${device.temperatureCelsius} °C` : "unknown",
    Power: html`${known(device.powerWatts) ? `${device.powerWatts} W` : "unknown"}${device.throttleReasons.map((reason) =>
      html`<br><small>${hint("throttled", REASONS[reason] ?? visible(reason))}</small>`)}`,
  };
  const noHolder = device.mayBeHeld ? "may be held" : requestedAtLeastMiB || !device.uuid && node.unattributed.length ? "not known" : "no pod";
  return html`<tr role="row" class=${`${device.healthy ? "" : "sick"}${device.index === gpu ? " aimed" : ""}`}>
    <th role="rowheader" scope="row">${nodeLink(node.node, device.index, device.index)}</th>
    <td role="cell" class="model">${visible(device.model)} <small>${memory(device.memory.totalMiB)}</small><br><small>${device.uuid
      ? visible(device.uuid) : "by labels"}</small>${device.healthy
      ? nothing : html`<br><strong class="bad">✕ ${visible(device.healthReason ?? "unhealthy")}</strong>`}${device.cordoned
      ? html`<br><strong class="warn">⊘ cordoned</strong>` : nothing}${device.offered === false
      ? html`<br><strong class="warn">⊘ not offered</strong>` : nothing}</td>
    ${heads.slice(2, -1).map(([head]) => html`<td role="cell" class=${`figure ${head === "Free" ? "free-of" : ""}`} data-label=${head}>${cells[head]}</td>`)}
    <td role="cell" class="held-by" data-label="Held by">${holdings.length ? html`<ul>${holdings.map((each) => html`<li>${holder(each)} <small><span class="amount">${part(each, device.memory)}</span>${each.by === "claim" ? html`, by claim ${named(each.claim)}` : nothing}${stateOf(each)}</small></li>`)}</ul>${device.mayBeHeld ? noHolder : nothing}` : noHolder}</td></tr>`;
}

/** A pod's part of a GPU: an instance, an amount, or all of it without the reservation of the driver. */
function part({ profile, memoryMiB }, { totalMiB, requestedAtLeastMiB }) {
  if (profile) return visible(profile);
  if (memoryMiB < totalMiB) return memory(memoryMiB);
  // Where the memory of the GPU is not known, neither is this.
  return requestedAtLeastMiB === null ? "held" : requestedAtLeastMiB ? "whole GPU" : "replica";
}

const STATES = { Assumed: "just placed", Nominated: "waits until others leave" };
const stateOf = ({ state }) => (state in STATES ? `, ${STATES[state]}` : "");

const holder = (each) => html`${each.name ? podLink(each) : html`${named(each.namespace)}/no pod`}${each.container ? html` (${named(each.container)})` : nothing}`;
