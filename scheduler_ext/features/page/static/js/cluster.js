// The nodes from the server's events (docs/features/page/page-events.md), and sums over them.

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
    // For a GPU that pods on unknown devices may hold, or that may not be offered: the amounts if neither is so.
  const [least, most, part] = special.maybe ?? [requested, free, held];
  const reported = row.length > 3;
    // The driver of some GPUs states no memory; then its use is null, and the free memory, if no label has the total.
  const known = reported && free !== null;
  return {
    index, model, total, reserved, requested, used, unaccounted, free,
    held: reported ? held : row[1],
    known, reported,
    maybe: Boolean(special.maybe),
      // The part that is not offered, null for none; the one of several GPUs that counts may be another.
    withheld: reported ? special.withheld ?? null : row[2] ?? null,
    seen: { requested: least, free: most, held: part },
    sick: special.sick ?? null,
    cordoned: special.cordoned ?? false,
    claimed: special.claimed ?? false,
    replicas: special.replicas ?? null,
    mig: special.mig ?? null,
    ...NO_READINGS,
  };
}

// The activity of a GPU, where its last report has it.
const NO_READINGS = { busy: null, celsius: null, watts: null, idle: null, wasted: false };

const SUMS = [
  "nodes", "gpus", "well", "held", "idle", "sick", "stale", "missing", "labelled", "total", "requested", "used",
  "unaccounted", "free", "measured", "reporting", "unattributed", "withheld",
];

/** The mark of a node without a fresh report that takes pods by its allocatable. */
export const BY_ALLOCATABLE = "by allocatable";

/** Counts, and memory in MiB. GPUs that may be gone count only as present. `measured` GPUs have a known use, and for those
in `reporting` the unaccounted part is known, too. `unattributed` counts nodes where pods hold unknown GPUs: these count
on some of the possible ones. */
function sumOf({ kind, state, marks, unattributed }, devices) {
  const counts = marks.includes(BY_ALLOCATABLE);
  const out = state === "Missing" && !counts;
  const changing = marks.includes("changing");
  const sum = Object.fromEntries(SUMS.map((name) => [name, 0]));
  Object.assign(sum, {
    nodes: 1, gpus: devices.length, stale: +(state === "Stale"), missing: +(state === "Missing"),
    labelled: +(kind === "labels" && state === "Fresh"), unattributed: +(unattributed.length > 0),
  });
  for (const device of devices) {
    sum.sick += device.sick !== null;
    if (out || device.sick !== null) continue;
    sum.well += 1;
    sum.held += device.held;
    sum.withheld += device.withheld ?? 0;
    if (!device.reported) continue;
    const open = !changing && !device.withheld && !device.cordoned && (counts || state === "Fresh");
    sum.idle += open && device.held === 0;
    if (!device.known) continue;
    sum.total += device.total - device.reserved;
    sum.requested += device.requested;
    sum.used += device.used ?? 0;
    sum.measured += device.used !== null;
    sum.reporting += device.unaccounted !== null;
    sum.unaccounted += device.unaccounted ?? 0;
    sum.free += device.free;
  }
    // Labels give only the number of free GPUs, not the GPU of each pod.
  if (kind === "labels" && !out && !changing) sum.idle = Math.floor(sum.well - sum.held - sum.withheld + 1e-2);
  return sum;
}

export function decodeNode(row) {
  const [name, pool, kind, state, marks, namespaces, unattributed, groups, readings = []] = row;
  const devices = groups.flatMap(([model, total, list]) => list.map((each) => decodeDevice(model, total, each)));
  for (const [index, busy, celsius, watts, idle, wasted = false] of readings) {
    Object.assign(devices.find((device) => device.index === index), { busy, celsius, watts, idle, wasted });
  }
  const about = { kind, state, marks, unattributed };
  const sum = sumOf(about, devices);
  const models = [...new Set(devices.map((device) => device.model))];
  return {
    name, pool, kind, state, marks, namespaces, unattributed, devices, sum, models,
    search: name.toLowerCase(),
        // Only GPUs of these models.
    sumOf: (of) => (models.length < 2 ? sum : sumOf(about, devices.filter((device) => of.includes(device.model)))),
        // The part of its GPUs that pods hold; null if none is healthy.
    held: sum.well ? sum.held / sum.well : null,
    cordoned: devices.filter((device) => device.cordoned).length,
        // GPUs that pods hold and leave idle.
    wasted: devices.filter((device) => device.wasted).length,
        // Nodes that need attention come first.
    trouble: 4 * sum.missing + (sum.sick ? 2 : 0) + sum.stale,
  };
}

/** The sums of sums. */
export function total(sums) {
  const all = Object.fromEntries(SUMS.map((name) => [name, 0]));
  for (const sum of sums) for (const name of SUMS) all[name] += sum[name];
  return all;
}

/** The sums over some nodes. */
export const totals = (nodes) => total(nodes.map((node) => node.sum));

export class Cluster {
  nodes = [];
  pending = { total: 0, lines: [] };
  decisions = [];
  samples = [];
  status = null;
  #byName = new Map();

    /** The present numbers of the page as a sample. */
  now() {
    const sum = totals(this.nodes);
    const { at, unallocated, unusable } = this.status;
    return [at, sum.gpus, sum.well, sum.held, unallocated, unusable, this.pending.total];
  }

    /** Apply a change; returns the changed parts. */
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
