// The pods that wait for a GPU with the reasons, and the last decisions.
import { html, nothing } from "../vendor/lit-html.js";
import { nodeLink, podLink } from "./pod.js";
import { ago, atDay, atSecond, count, plural, visible, zone } from "./text.js";

const MOST_SHOWN = 50;

/** The number of waiting pods; with filters, of the listed ones that pass. */
export function waitingCount(pending, filters) {
  if (!pending.total) return "";
  if (!filters.namespace) return `(${count(pending.total)})`;
  const shown = pending.lines.filter((line) => filters.showsPod(line)).length;
  return `(${pending.lines.length < pending.total ? "≥ " : ""}${count(shown)} of ${count(pending.total)})`;
}

export function pendingTemplate(pending, filters, now) {
  const lines = pending.lines.filter((line) => filters.showsPod(line));
  if (!lines.length) {
    return html`<p class="empty">${pending.total && filters.namespace ? noneOf(pending) : "No pod waits for a GPU."}</p>`;
  }
  const more = (filters.namespace ? lines.length : pending.total) - Math.min(lines.length, MOST_SHOWN);
  return html`<p class="scope">Counts are of all nodes, also those without GPUs.</p>
  <ul class="pods">${lines.slice(0, MOST_SHOWN).map(
    (line) => html`<li>
      <p class="who">${podLink(line)}${line.since ? html`<span class="when">${ago(now - Date.parse(line.since) / 1000)}</span>` : nothing}</p>
      <p class="asks">${visible(line.asks)}${line.priority ? ` · priority ${count(line.priority)}` : ""}</p>
      <p class="reason">${visible(line.reason)}</p>
      ${line.nearest ? html`<p class="nearest">${line.commonest ? "nearest: " : ""}${visible(line.nearest)}</p>` : nothing}
      ${line.commonest ? html`<p class="nearest">${commonest(line)}</p>` : nothing}
      ${line.nominated ? html`<p class="nearest">others leave ${nodeLink(line.nominated)} for it</p>` : nothing}
    </li>`,
  )}</ul>${more > 0 ? html`<p class="more">and ${count(more)} more</p>` : nothing}`;
}

const noneOf = ({ lines, total }) => (lines.length < total
  ? `None of this namespace among the ${count(lines.length)} most urgent of ${count(total)}; the search finds the others.` : "None of this namespace.");

/** The number of nodes that the commonest reason refuses; with its name if the nearest node has another. */
function commonest({ reason, commonest: most }) {
  const where = `${count(most.nodes)} of ${plural(most.of, "node")}`;
  return most.reason === reason ? `the same reason on ${where}` : `commonest, on ${where}: ${visible(most.reason)}`;
}

export function decisionsTemplate(decisions, filters) {
  const shown = decisions.filter((each) => filters.showsPod(each));
  if (!shown.length) return html`<p class="empty">Nothing was decided yet.</p>`;
  return html`<p class="scope">Counts are of the nodes that kube-scheduler asked about; times are ${zone()}.</p>
  <ol class="pods">${shown.slice(0, MOST_SHOWN).map(
    (each) => html`<li class=${outcome(each)}>
      <p class="who">${podLink(each)}<time class="when" title=${atDay(each.at)}>${atSecond(each.at)}</time></p>
      ${result(each)}
    </li>`,
  )}</ol>`;
}

function outcome(decision) {
  if (decision.bound) return decision.bound.error ? "failed" : "bound";
  return decision.fitting ? "fits" : "refused";
}

function result(decision) {
  const { asked, fitting, bound, best, reason } = decision;
  const lines = [];
  if (bound) {
    const failed = bound.error ? html`not bound to ${nodeLink(bound.node)}: ${visible(bound.error)}` : null;
    lines.push(html`<p>${failed ?? html`bound to ${nodeLink(bound.node)}`}</p>`);
  } else if (best) {
    const why = decision.why.length ? ` for ${decision.why.map(visible).join(" and ")}` : "";
    lines.push(html`<p>best ${nodeLink(best)}${why}</p>`);
  }
  if (asked && !fitting) lines.push(html`<p>none of ${plural(asked, "node")} fits: ${visible(reason ?? "")}</p>`);
  else if (asked) {
    const others = asked > fitting && reason ? `; others: ${visible(reason)}` : "";
    lines.push(html`<p class="asks">${count(fitting)} of ${plural(asked, "node")} fit${others}</p>`);
  }
  return lines;
}
