// The filters of the page: kept in the address, so that a view can be shared.
import { html } from "../vendor/lit-html.js";
import { visible } from "./text.js";

// Longer lists are useless for a choice.
const MOST_OPTIONS = 300;
const FIELDS = ["find", "model", "pool", "namespace", "sort", "view", "group", "order", "pods", "podOrder"];

export class Filters {
  find = "";
  model = "";
  pool = "";
  namespace = "";
  troubled = false;
  idle = false;
  sort = "trouble";
  view = "cards";
  // Of the map: by `pool` or `model`, empty for the usual one; `state`, `load` or `name`.
  group = "";
  order = "state";
    // Of the running pods: a part of NAMESPACE/NAME, and the order.
  pods = "";
  podOrder = "name";

  static fromAddress() {
    const filters = new Filters();
    const given = new URLSearchParams(location.search);
    for (const field of FIELDS) filters[field] = given.get(field) ?? filters[field];
    filters.troubled = given.has("troubled");
    filters.idle = given.has("idle");
    return filters;
  }

  toAddress() {
    const usual = new Filters();
    const given = new URLSearchParams();
    for (const field of FIELDS) if (this[field] !== usual[field]) given.set(field, this[field]);
    if (this.troubled) given.set("troubled", "");
    if (this.idle) given.set("idle", "");
    const text = given.toString();
    history.replaceState(null, "", (text ? `?${text}` : location.pathname) + location.hash);
  }

  get narrow() {
    return Boolean(this.find || this.model || this.pool || this.namespace || this.troubled || this.idle);
  }

  clear() {
    Object.assign(this, { find: "", model: "", pool: "", namespace: "", troubled: false, idle: false, pods: "" });
  }

  shows(node) {
    return (
      (!this.model || node.models.includes(this.model)) &&
      (!this.pool || node.pool === this.pool) &&
      (!this.namespace || node.namespaces.includes(this.namespace)) &&
      (!this.troubled || node.trouble > 0 || node.cordoned > 0) &&
      (!this.idle || node.wasted > 0) &&
      (!this.find || node.search.includes(this.find.toLowerCase()))
    );
  }

  showsPod(pod) {
    return !this.namespace || pod.namespace === this.namespace;
  }
}

/** The nodes in the chosen order; they come sorted by name. */
export function sorted(nodes, order) {
  const by = {
    trouble: (a, b) => b.trouble - a.trouble,
    free: (a, b) => (a.held ?? 2) - (b.held ?? 2),
    full: (a, b) => (b.held ?? -1) - (a.held ?? -1),
  }[order];
  return by ? [...nodes].sort(by) : nodes;
}

const distinct = (values) => [...new Set(values)].filter(Boolean).sort();

/** The available choices. */
export function choices(cluster) {
  const pods = [...cluster.pending.lines, ...cluster.decisions];
  return {
    model: distinct(cluster.nodes.flatMap((node) => node.models)),
    pool: distinct(cluster.nodes.map((node) => node.pool)),
    namespace: distinct([...cluster.nodes.flatMap((node) => node.namespaces), ...pods.map((pod) => pod.namespace)]),
  };
}

function select(filters, field, label, options, changed) {
    // A chosen value stays in the list, also when no node has it any more.
  const listed = options.slice(0, MOST_OPTIONS);
  if (filters[field] && !listed.includes(filters[field])) listed.unshift(filters[field]);
  return html`<label>${label}
    <select name=${field} @change=${(event) => changed(field, event.target.value)}>
      <option value="" ?selected=${!filters[field]}>all</option>
      ${listed.map(
        (option) =>
          html`<option value=${option} ?selected=${filters[field] === option}>${visible(option)}</option>`,
      )}
    </select></label>`;
}

export const filterForm = (filters, options, changed, clear) => html`
  <label>Node
    <input type="search" name="find" placeholder="part of its name" .value=${filters.find} maxlength="253"
      spellcheck="false" autocomplete="off" @input=${(event) => changed("find", event.target.value)}></label>
  ${select(filters, "model", "Model", options.model, changed)}
  ${select(filters, "pool", "Pool", options.pool, changed)}
  ${select(filters, "namespace", "Namespace", options.namespace, changed)}
  <label class="check"><input type="checkbox" name="troubled" .checked=${filters.troubled}
    @change=${(event) => changed("troubled", event.target.checked)}>Only what needs a look</label>
  <label class="check"><input type="checkbox" name="idle" .checked=${filters.idle}
    @change=${(event) => changed("idle", event.target.checked)}>Only with idle GPUs</label>
  <button type="button" ?disabled=${!filters.narrow} @click=${clear}>Show all</button>`;
