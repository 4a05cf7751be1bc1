// Who waits for a GPU and why, and what was decided last.
import { html, nothing } from "../vendor/lit-html.js";
import { ago, atSecond, count, named, plural, visible } from "./text.js";

const MOST_SHOWN = 50;

const podName = (pod) => html`<span class="pod">${named(pod.namespace)}<wbr>/${named(pod.name)}</span>`;

export function pendingTemplate(pending, filters, now) {
  const lines = pending.lines.filter((line) => filters.showsPod(line));
  if (!lines.length) {
    return html`<p class="empty">${pending.total && filters.namespace ? "None of this namespace." : "No pod waits for a GPU."}</p>`;
  }
  const more = (filters.namespace ? lines.length : pending.total) - Math.min(lines.length, MOST_SHOWN);
  return html`<ul class="pods">${lines.slice(0, MOST_SHOWN).map(
    (line) => html`<li>
      <p class="who">${podName(line)}${line.since ? html`<span class="when">${ago(now - line.since)}</span>` : nothing}</p>
      <p class="asks">${visible(line.asks)}${line.priority ? ` · priority ${count(line.priority)}` : ""}</p>
      <p class="reason">${visible(line.reason)}</p>
      ${line.nearest ? html`<p class="nearest">nearest: ${visible(line.nearest)}</p>` : nothing}
      ${line.nominated ? html`<p class="nearest">others leave ${named(line.nominated)} for it</p>` : nothing}
    </li>`,
  )}</ul>${more > 0 ? html`<p class="more">and ${count(more)} more</p>` : nothing}`;
}

export function decisionsTemplate(decisions, filters) {
  const shown = decisions.filter((each) => filters.showsPod(each));
  if (!shown.length) return html`<p class="empty">Nothing was decided yet.</p>`;
  return html`<ol class="pods">${shown.slice(0, MOST_SHOWN).map(
    (each) => html`<li class=${outcome(each)}>
      <p class="who">${podName(each)}<time class="when">${atSecond(each.at)}</time></p>
      ${result(each)}
    </li>`,
  )}</ol>`;
}

function outcome(decision) {
  if (decision.bound) return decision.bound.error ? "failed" : "bound";
  return decision.fitting ? "fits" : "refused";
}

function result(decision) {
  const of = `${plural(decision.fitting, "node")} of ${count(decision.asked)} fit`;
  const { bound } = decision;
  const parts = [];
  if (bound && bound.error) parts.push(html`<p class="reason">✕ not bound to ${named(bound.node)}: ${visible(bound.error)}</p>`);
  else if (bound) parts.push(html`<p class="good">✓ bound to ${named(bound.node)}</p>`);
  if (decision.asked && !decision.fitting) {
    parts.push(html`<p class="reason">✕ none of ${plural(decision.asked, "node")} fits: ${visible(decision.reason ?? "")}</p>`);
  } else if (decision.asked && !bound) {
    const why = decision.why.length ? ` for ${decision.why.map(visible).join(" and ")}` : "";
    parts.push(html`<p class="good">✓ ${decision.best ? html`best ${named(decision.best)}${why}` : of}</p>`);
  }
  if (decision.asked && decision.fitting) {
    const rest = decision.asked > decision.fitting && decision.reason ? `; others: ${visible(decision.reason)}` : "";
    parts.push(html`<p class="asks">${of}${rest}</p>`);
  }
  return parts;
}
