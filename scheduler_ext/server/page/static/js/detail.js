// One node in full: every GPU with its UUID and its holders.
import { html, nothing, render } from "../vendor/lit-html.js";
import { memory, named, visible } from "./text.js";

export class Detail {
  #dialog;
  #name = null;

  constructor(dialog) {
    this.#dialog = dialog;
    dialog.addEventListener("close", () => (this.#name = null));
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close();
    });
  }

  async open(name) {
    this.#name = name;
    render(this.#frame(html`<p class="empty">Reading</p>`), this.#dialog);
    if (!this.#dialog.open) this.#dialog.showModal();
    await this.refresh();
  }

    /** Fetch it again, while it is open. */
  async refresh() {
    const name = this.#name;
    if (name === null) return;
    let body;
    try {
      const reply = await fetch(`node?name=${encodeURIComponent(name)}`);
      body = reply.ok ? full(await reply.json()) : html`<p class="empty">This node is gone.</p>`;
    } catch {
      body = html`<p class="empty">The server does not answer.</p>`;
    }
    if (this.#name === name) render(this.#frame(body), this.#dialog);
  }

  #frame(body) {
    return html`<header><h2 id="detail-title">${named(this.#name)}</h2>
      <button type="button" autofocus @click=${() => this.#dialog.close()}>Close</button></header>${body}`;
  }
}

function full({ node, ledger }) {
  if (!node) return html`<p class="empty">No GPU is known here.</p>`;
  const source = node.source === "report" ? `report, ${Math.round(node.ageSeconds)} s old` : visible(node.source);
  return html`<p class="about">${node.state}, known by ${source}${node.unattributed.map((each) => `; ${visible(each.text)}`).join("")}</p>
    <div class="wide" tabindex="0" role="region" aria-label="GPUs">
    <table><thead><tr><th scope="col">GPU</th><th scope="col">Model</th><th scope="col">Requested</th><th scope="col">In use</th>
      <th scope="col">Unaccounted</th><th scope="col">Free</th><th scope="col">Held by</th></tr></thead>
    <tbody>${node.devices.map((device) => deviceRow(node, device, ledger.devices[device.uuid]?.holdings ?? []))}</tbody></table></div>
    ${ledger.unknownDevices.length ? html`<h3>Held, which GPU is not known</h3><ul>${ledger.unknownDevices.map((each) =>
      html`<li>${holder(each)}: ${each.count} × ${visible(each.resource)}, ${each.state.toLowerCase()}</li>`)}</ul>` : nothing}`;
}

function deviceRow(node, device, holdings) {
  const { totalMiB, requestedAtLeastMiB, usedMiB, unaccountedMiB, freeAtMostMiB } = device.memory;
  const amounts = [
    device.mayBeHeld ? `≥ ${memory(requestedAtLeastMiB)}` : memory(requestedAtLeastMiB), memory(usedMiB), memory(unaccountedMiB),
    device.mayBeHeld ? `≤ ${memory(freeAtMostMiB)}` : memory(freeAtMostMiB),
  ];
  const noHolder = device.mayBeHeld ? "may be held" : requestedAtLeastMiB || !device.uuid && node.unattributed.length ? "not known" : "no pod";
  return html`<tr class=${device.healthy ? "" : "sick"}>
    <th scope="row">${device.index}</th>
    <td>${visible(device.model)}<br><small>${memory(totalMiB)}</small><br><small>${device.uuid ? visible(device.uuid) : "by labels"}</small>${device.healthy
      ? nothing : html`<br><strong class="bad">✕ ${visible(device.healthReason ?? "unhealthy")}</strong>`}${device.cordoned
      ? html`<br><strong class="warn">⊘ cordoned</strong>` : nothing}</td>
    ${amounts.map((text) => html`<td class="figure">${text}</td>`)}
    <td>${holdings.length ? html`<ul>${holdings.map((each) => html`<li>${holder(each)} <small>${each.profile
      ? visible(each.profile) : memory(each.memoryMiB)}, ${each.by === "claim" ? html`by claim ${named(each.claim)}, ` : nothing}${each.state.toLowerCase()}</small></li>`)}</ul>${device.mayBeHeld ? noHolder : nothing}` : noHolder}</td></tr>`;
}

const holder = (each) => html`${named(each.namespace)}/${each.name ? named(each.name) : "no pod"}${each.container ? html` (${named(each.container)})` : nothing}`;
