// The words of the page that need an explanation, in one sentence or two.

export const TERMS = {
  nodes: "Nodes with GPUs, by how they are known: most by the report of an agent, some by their labels only.",
  gpus: "All GPUs, also sick ones and those of missing nodes. Wholly free: no pod holds any part, and a pod may get it.",
  allocated: "GPUs and parts of GPUs that pods hold, of those in service: neither sick nor on a missing node.",
  requested: "Memory promised to pods: all of a GPU that a pod holds whole, the amount of a share, the memory of a held MIG instance.",
  used: "Memory in use at the last report, without the part that the driver reserves.",
  unaccounted: "Memory in use that belongs to no known pod: of a process outside Kubernetes, or left behind by one that ended. It is not promised to shares.",
  beyond: "Memory that pods use in addition to what they requested. It is not promised to shares while they use it.",
  free: "Memory that may still be promised to pods. ≤ marks an upper bound: pods hold GPUs there that are not known yet.",
  kept: "Memory that is not promised: what the driver reserves, the headroom of shares, and the rest of a GPU that takes nothing new (sick, cordoned, or without a fresh report).",
  perhaps: "Memory that a pod may hold: a pod has just started on the node, and the agent has not seen its GPUs yet.",
  busy: "The part of the time in which the GPU computed, at the last report.",
  temperature: "The temperature of the GPU at the last report.",
  holders: "The pods on the GPU, each with its part. A whole GPU is all memory but what the driver reserves; a replica has its turn on the GPU and no memory of its own.",
  sick: "GPUs that their agent reports as unhealthy. They take nothing new.",
  stale: "The agent's last report is old. Nothing is placed there until the next one.",
  missing: "A crossed box: the node's agent does not report, or all its GPUs are sick. Nothing is placed there.",
  labels: "The node has no agent's report yet. Only the number and the model of its GPUs are known, from labels.",
  fragmented: "The part of the unallocated GPUs that the pods to come cannot use, by what pods have asked so far.",
};
