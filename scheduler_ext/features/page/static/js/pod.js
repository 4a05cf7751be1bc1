// One pod in full: where it is and what it holds, or why it waits, in the words of `why`.
import { html, nothing } from "../vendor/lit-html.js";
import { nodeAddress, podAddress } from "./address.js";
import { againButton } from "./dialog.js";
import { ago, atDay, count, localTimes, memory, named, plural, tenth, visible } from "./text.js";

export const nodeLink = (name, gpu = null, text = named(name)) => html`<a href=${nodeAddress(name, gpu)}>${text}</a>`;
export const podLink = ({ namespace, name }) =>
  html`<a class="pod" href=${podAddress(namespace, name)}>${named(namespace)}<wbr>/${named(name)}</a>`;

export const pod = {
  path: ({ name }) => `pod?pod=${encodeURIComponent(name)}`,
  unreadable: "This address names no pod. It should end with #pod=NAMESPACE/NAME.",
  gone: "No pod of this name waits for GPUs or holds some, and no decision about one is remembered. It may have ended.",
  body: (found, _, again) => html`
    <p class="about">${found.asks === null ? "its GPU request is invalid" : `asks ${visible(found.asks) || "no GPU"}`}</p>
    ${found.invalid ? html`<p class="verdict bad">${visible(found.invalid)}</p>` : nothing}
    ${found.placed ? placed(found.placed) : html`<p class="verdict">${sentence(found.verdict.join(" "))}</p>`}
    ${found.waiting ? waiting(found.waiting) : nothing}
    ${list("", found.notes, "notes-of-pod")}
    ${reasons(found)}
    ${found.kubeScheduler ? html`<p class="said">${sentence(found.kubeScheduler)}</p>` : nothing}
    ${list("Decisions", found.decisions)}
    ${nodes(found)}
    <p class="as-of">As of ${atDay(Date.now() / 1000)} ${againButton(again)}</p>`,
};

const sentence = (text) => visible(localTimes(text));
const list = (title, lines, kind = "") => lines.length
  ? html`${title ? html`<h3>${title}</h3>` : nothing}<ul class=${kind}>${lines.map((line) => html`<li>${sentence(line)}</li>`)}</ul>` : nothing;

const fact = (name, value) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;
// A date is not broken at its hyphens.
const age = (since) => html`${ago(Date.now() / 1000 - since)}, since ${atDay(since).split(" ").map((part) => html`<span class="amount">${part}</span> `)}`;

function placed(pod) {
  const known = pod.devices.length > 0;
  return html`<dl class="facts">
    ${fact("Node", nodeLink(pod.node))}
    ${fact("State", html`${pod.state === "Bound" ? "on its node" : pod.state.toLowerCase()}${pod.since === null ? nothing : html`<br><small>for ${age(pod.since)}</small>`}`)}
    ${fact("GPUs", known ? html`<ul>${pod.devices.map((each) => html`<li>${gpuLink(pod.node, each)}</li>`)}</ul>`
      : `${tenth(pod.gpus)}, devices unknown`)}
    ${fact("Memory requested", pod.requestedMiB ? memory(pod.requestedMiB) : "none of its own")}
    ${fact("Memory in use", memory(pod.usedMiB))}
    ${pod.priority === null ? nothing : fact("Priority", count(pod.priority))}</dl>`;
}

/** A GPU of a pod: by its index if the node reports it. */
function gpuLink(node, { index, uuid, profile, container, by }) {
  const about = [profile, container, by === "claim" ? "by claim" : null].filter(Boolean).map(visible).join(", ");
  const text = index === null ? visible(uuid) : html`GPU ${index} <small>${visible(uuid)}</small>`;
  return html`${nodeLink(node, index, text)}${about ? html` <small>(${about})</small>` : nothing}`;
}

const waiting = ({ priority, since, nominated }) => html`<dl class="facts">
  ${fact("Waits", since === null ? "unknown" : age(since))}${fact("Priority", count(priority))}
  ${nominated ? fact("Others leave for it", nodeLink(nominated)) : nothing}</dl>`;

function reasons({ namespace, name, counts, meanings, nearest, advice }) {
  const all = Object.entries(counts);
  return html`${all.length ? html`<h3>Reasons</h3><ul class="reasons">${all.map(([reason, nodes]) =>
    html`<li><b>${plural(nodes, "node")}</b> <span>${visible(reason)}${reason in meanings ? html`<br>${meaning(meanings[reason], namespace, name)}` : nothing}</span></li>`)}</ul>` : nothing}
    ${nearest ? html`<h3>Nearest: ${nodeLink(nearest.node)}</h3><p>${visible(nearest.text)}</p>${leavers(nearest.wouldFitWithout)}` : nothing}
    ${list("What would help", advice)}`;
}

const meaning = (text, namespace, name) =>
  html`<small>${text} <code>kubectl -n ${visible(namespace)} describe pod ${visible(name)}</code></small>`;

function leavers(pods) {
  const seen = pods.filter((each) => each.name !== null);
  if (!seen.length) return nothing;
  // All of them have to leave, also those whose names are hidden.
  const hidden = pods.length - seen.length;
  const more = hidden ? ` and ${hidden === 1 ? "a pod of another namespace" : `${count(hidden)} pods of other namespaces`}` : "";
  return html`<p class="leavers">It would fit without ${seen.map((each, index) => html`${index ? ", " : ""}${podLink(each)}`)}${more}</p>`;
}

function nodes(found) {
  if (!found.nodes.length) return nothing;
  const total = found.nodes.length + found.nodesLeftOut;
  const title = found.placed || found.gone ? "Nodes, if it were created again now" : "Nodes";
  const order = found.nodes[0].verdict === "fits" ? "the best first, then the nearest" : found.invalid ? "by name" : "the nearest first";
  const unexplained = Object.entries(found.meanings).filter(([reason]) => !(reason in found.counts));
  return html`<h3>${title}</h3>
    <p class="scope">${found.nodesLeftOut ? `${count(found.nodes.length)} of ` : ""}${plural(total, "node")}, ${order}</p>
    <div class="wide" tabindex="0" role="region" aria-label="Nodes"><table class="verdicts">
    <thead><tr><th scope="col">Node</th><th scope="col">Verdict</th><th scope="col">Free GPUs</th><th scope="col">Reason or GPUs</th></tr></thead>
    <tbody>${found.nodes.map((each) => html`<tr class=${each.verdict}>
      <th scope="row">${nodeLink(each.node)}<br><small>${visible(each.model ?? "no GPU")}</small></th>
      <td>${each.verdict === "fits" ? html`<b class="good">✓ fits</b><br><small>score ${each.score}</small>` : html`<b class="bad">✕ refuses</b>`}${each.here ? html`<br><small>is here</small>` : nothing}</td>
      <td class="figure">${each.freeGpus} of ${each.gpus}</td>
      <td>${visible(each.says)}${each.miss ? html`<br><small>${visible(each.miss)}</small>` : nothing}</td></tr>`)}</tbody></table></div>
    ${unexplained.map(([reason, text]) => html`<p class="scope">${visible(reason)}: ${meaning(text, found.namespace, found.name)}</p>`)}`;
}
