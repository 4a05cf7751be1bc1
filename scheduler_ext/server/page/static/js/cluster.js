// The nodes as the server tells them (docs/reference/page-events.md), and sums over them.

const KINDS = {
  whole: "whole GPUs",
  shares: "memory shares",
  mig: "MIG",
  "time-slicing": "time-slicing",
  mps: "MPS",
  labels: "known by labels only",
};

export const kindText = (kind) => KINDS[kind] ?? kind;

function decodeDevice(model, total, row) {
  const [index, reserved, requested, used, unaccounted, free, held] = row;
  const special = row[7] ?? {};
  return {
    index, model, total, reserved, requested, used, unaccounted, free, held,
    known: row.length > 1,
    sick: special.sick ?? null,
    cordoned: special.cordoned ?? false,
    replicas: special.replicas ?? null,
    mig: special.mig ?? null,
  };
}

const SUMS = [
  "nodes", "gpus", "well", "held", "idle", "sick", "stale", "missing", "total", "requested", "used", "unaccounted", "free",
  "measured", "telling",
];

/** Counts, and memory in MiB. What is missing counts as there, and as nothing else. Of the `measured` GPUs, whose use
 is known, those `telling` say what of it nobody explains. */
function sumOf(state, adrift, devices) {
  const sum = Object.fromEntries(SUMS.map((name) => [name, 0]));
  Object.assign(sum, { nodes: 1, gpus: devices.length, stale: +(state === "Stale"), missing: +(state === "Missing") });
  for (const device of devices) {
    sum.sick += device.sick !== null;
    if (state === "Missing" || device.sick !== null) continue;
    sum.well += 1;
    if (!device.known) continue;
    sum.held += device.held;
    sum.idle += device.held === 0 && !device.cordoned && state === "Fresh";
    sum.total += device.total - device.reserved;
    sum.requested += device.requested;
    sum.used += device.used;
    sum.measured += 1;
    sum.telling += device.unaccounted !== null;
    sum.unaccounted += device.unaccounted ?? 0;
    sum.free += device.free;
  }
  sum.held = Math.min(sum.well, sum.held + adrift);
  sum.idle = Math.max(0, Math.floor(sum.idle - adrift));
  return sum;
}

export function decodeNode(row) {
  const [name, pool, kind, state, marks, namespaces, adrift, groups] = row;
  const devices = groups.flatMap(([model, total, list]) => list.map((each) => decodeDevice(model, total, each)));
  const sum = sumOf(state, adrift, devices);
  return {
    name, pool, kind, state, marks, namespaces, adrift, devices, sum,
    search: name.toLowerCase(),
    models: [...new Set(devices.map((device) => device.model))],
    // The part of its GPUs that pods hold; null where none is well.
    held: sum.well ? sum.held / sum.well : null,
    cordoned: devices.filter((device) => device.cordoned).length,
    // What needs a look comes first.
    trouble: 4 * sum.missing + (sum.sick ? 2 : 0) + sum.stale,
  };
}

/** The sums over some nodes. */
export function totals(nodes) {
  const all = Object.fromEntries(SUMS.map((name) => [name, 0]));
  for (const { sum } of nodes) for (const name of SUMS) all[name] += sum[name];
  return all;
}

export class Cluster {
  nodes = [];
  pending = { total: 0, lines: [] };
  decisions = [];
  samples = [];
  status = null;
  #byName = new Map();

  /** Take a change; says which parts are new. */
  apply(change) {
    const parts = new Set();
    this.status = change.status;
    if (change.nodes) {
      if (change.full) {
        this.#byName.clear();
        this.decisions = [];
        this.samples = [];
      }
      for (const row of change.nodes) this.#byName.set(row[0], decodeNode(row));
      for (const name of change.gone) this.#byName.delete(name);
      this.nodes = [...this.#byName.values()].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
      parts.add("nodes");
    }
    if (change.pending) {
      this.pending = change.pending;
      parts.add("pending");
    }
    if (change.decisions) {
      const newer = new Set(change.decisions.map((each) => each.uid));
      const older = this.decisions.filter((each) => !newer.has(each.uid));
      this.decisions = [...change.decisions, ...older].slice(0, 200);
      parts.add("decisions");
    }
    if (change.samples) {
      this.samples = [...this.samples, ...change.samples].slice(-1440);
      parts.add("samples");
    }
    return parts;
  }
}
