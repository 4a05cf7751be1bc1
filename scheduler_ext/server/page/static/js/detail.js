// One node in full: every GPU with its UUID and its holders.
import { html, nothing } from "../vendor/lit-html.js";
import { nodeLink, podLink } from "./pod.js";
import { memory, named, visible } from "./text.js";

export const node = {
  path: ({ name }) => `node?name=${encodeURIComponent(name)}`,
  gone: "There is no node of this name. It may have been removed.",
  body: full,
};

function full({ node, ledger }, { gpu }) {
  if (!node) return html`<p class="empty">No GPU is known here.</p>`;
  const source = node.source === "report" ? `report, ${Math.round(node.ageSeconds)} s old` : visible(node.source);
  const unknown = gpu !== null && !node.devices.some((device) => device.index === gpu);
  return html`${unknown ? html`<p class="warn">This node has no GPU ${gpu}.</p>` : nothing}<p class="about">${node.state}, known by ${source}${node.unattributed.map((each) => `; ${visible(each.text)}`).join("")}</p>
    <div class="wide" tabindex="0" role="region" aria-label="GPUs">
    <table><thead><tr><th scope="col">GPU</th><th scope="col">Model</th><th scope="col">Requested</th><th scope="col">In use</th>
      <th scope="col">Unaccounted</th><th scope="col">Free</th><th scope="col">Held by</th></tr></thead>
    <tbody>${node.devices.map((device) => deviceRow(node, device, ledger.devices[device.uuid]?.holdings ?? [], gpu))}</tbody></table></div>
    ${ledger.unknownDevices.length ? html`<h3>Held, which GPU is not known</h3><ul>${ledger.unknownDevices.map((each) =>
      html`<li>${holder(each)}: ${each.count} × ${visible(each.resource)}, ${each.state.toLowerCase()}</li>`)}</ul>` : nothing}`;
}

function deviceRow(node, device, holdings, gpu) {
  const { totalMiB, requestedAtLeastMiB, usedMiB, unaccountedMiB, freeAtMostMiB } = device.memory;
  const amounts = [
    device.mayBeHeld ? `≥ ${memory(requestedAtLeastMiB)}` : memory(requestedAtLeastMiB), memory(usedMiB), memory(unaccountedMiB),
    device.mayBeHeld ? `≤ ${memory(freeAtMostMiB)}` : memory(freeAtMostMiB),
  ];
  const noHolder = device.mayBeHeld ? "may be held" : requestedAtLeastMiB || !device.uuid && node.unattributed.length ? "not known" : "no pod";
  return html`<tr class=${`${device.healthy ? "" : "sick"}${device.index === gpu ? " aimed" : ""}`}>
    <th scope="row">${nodeLink(node.node, device.index, device.index)}</th>
    <td>${visible(device.model)}<br><small>${memory(totalMiB)}</small><br><small>${device.uuid ? visible(device.uuid) : "by labels"}</small>${device.healthy
      ? nothing : html`<br><strong class="bad">✕ ${visible(device.healthReason ?? "unhealthy")}</strong>`}${device.cordoned
      ? html`<br><strong class="warn">⊘ cordoned</strong>` : nothing}</td>
    ${amounts.map((text) => html`<td class="figure">${text}</td>`)}
    <td>${holdings.length ? html`<ul>${holdings.map((each) => html`<li>${holder(each)} <small>${each.profile
      ? visible(each.profile) : memory(each.memoryMiB)}, ${each.by === "claim" ? html`by claim ${named(each.claim)}, ` : nothing}${each.state.toLowerCase()}</small></li>`)}</ul>${device.mayBeHeld ? noHolder : nothing}` : noHolder}</td></tr>`;
}

const holder = (each) => html`${each.name ? podLink(each) : html`${named(each.namespace)}/no pod`}${each.container ? html` (${named(each.container)})` : nothing}`;
