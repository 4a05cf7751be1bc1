// The nodes as the server tells them (docs/reference/inspection.md), and sums over them.

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
  const [index, reserved, requested, used, unaccounted, free] = row;
  const special = typeof row.at(-1) === "object" && row.at(-1) !== null ? row.at(-1) : {};
  return {
    index, model, total, reserved, requested, used, unaccounted, free,
    known: row.length > 1,
    sick: special.sick ?? null,
    cordoned: special.cordoned ?? false,
    replicas: special.replicas ?? null,
    mig: special.mig ?? null,
  };
}

/** How much of a device is promised, 0 to 1; null where nobody knows. */
export function promised(device) {
  if (!device.known) return null;
  if (device.replicas) return Math.min(1, device.replicas[0] / Math.max(1, device.replicas[1]));
  return Math.min(1, device.requested / Math.max(1, device.total - device.reserved));
}

export function decodeNode(row) {
  const [name, pool, kind, state, marks, namespaces, unknown, groups] = row;
  const devices = groups.flatMap(([model, total, list]) => list.map((each) => decodeDevice(model, total, each)));
  const parts = devices.map(promised).filter((part) => part !== null);
  const sick = devices.filter((device) => device.sick !== null).length;
  return {
    name, pool, kind, state, marks, namespaces, unknown, devices, sick,
    search: name.toLowerCase(),
    models: [...new Set(devices.map((device) => device.model))],
    promised: parts.length ? parts.reduce((sum, part) => sum + part, 0) / parts.length : null,
    cordoned: devices.filter((device) => device.cordoned).length,
    // What needs a look comes first.
    trouble: (state === "Missing" ? 4 : 0) + (sick ? 2 : 0) + (state === "Stale" ? 1 : 0),
  };
}

/** Memory in MiB and counts over some nodes. */
export function totals(nodes) {
  const sum = {
    nodes: nodes.length, gpus: 0, known: 0, sick: 0, stale: 0, missing: 0, idle: 0,
    total: 0, requested: 0, used: 0, unaccounted: 0, free: 0, promised: 0,
  };
  for (const node of nodes) {
    sum.stale += node.state === "Stale";
    sum.missing += node.state === "Missing";
    sum.sick += node.sick;
    for (const device of node.devices) {
      sum.gpus += 1;
      if (!device.known) continue;
      const part = promised(device);
      sum.known += 1;
      sum.promised += part;
      sum.idle += part === 0 && device.sick === null && !device.cordoned && node.state === "Fresh";
      sum.total += device.total - device.reserved;
      sum.requested += device.requested;
      sum.used += device.used;
      sum.unaccounted += device.unaccounted ?? 0;
      sum.free += device.free;
    }
  }
  return sum;
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
