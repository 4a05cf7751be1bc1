// What a problem means, and what to do about it, for a reader who has never seen it.

const LOG = "kubectl -n gpu-scheduler logs deployment/gpu-scheduler -c extender";
const AGENTS = "kubectl -n gpu-scheduler-agent get pods -o wide";
// Pods are placed by the last known state then; until there is one, they wait.
const OLD = "Pods are placed by the last known state.";
const NONE = "Pods wait until then.";

const AGAIN = "The extender reads it again within half a minute, and the page follows.";
const UNREADABLE = "The inventory file cannot be read";

// By the end of the problem's text, the first that matches.
const OF_THE_FILE = [
  [/No such file or directory$/, { title: "The inventory file is missing", todo: `Put a file at this path. ${AGAIN}` }],
  [/(Permission denied|Operation not permitted)$/, { title: UNREADABLE, todo: `Allow the extender's user to read it. ${AGAIN}` }],
  [/does not answer\?$/, { title: UNREADABLE, todo: `Check the mount. ${AGAIN}` }],
  [/see the log$|ended with status/, { title: UNREADABLE, todo: "The extender's log has more." }],
  [/$/, { title: UNREADABLE, todo: `Correct the file. ${AGAIN}` }],
];

const KNOWN = {
  inventory: {
    title: "Changes of the cluster cannot be processed",
    todo: `The extender tries again every second; its log has the error:`,
    command: LOG,
  },
  agents: {
    title: "No agent reports its GPUs",
    todo: "These nodes get no new pods, and their GPUs are shown as last reported. Check whether the agents run, and their logs:",
    command: AGENTS,
  },
  reports: {
    title: "Many nodes have no fresh report",
    todo: "These nodes get no new pods, and their GPUs are shown as last reported. Check whether their agents run, and their logs:",
    command: AGENTS,
  },
  extender: {
    title: "The extender does not answer",
    todo: "It has stopped, or the port-forward (or `make run`) that leads to it has. Start that again: the page goes on by itself. Then see the extender's log:",
    command: LOG,
  },
  page: {
    title: "The extender does not keep this page up to date",
    todo: "Pods are placed all the same. If this lasts, its log has the reason:",
    command: LOG,
  },
  DeviceTaintRules: {
    title: "Sick GPUs cannot be marked with DeviceTaintRules",
    todo: "The extender tries again by itself. If it was refused, apply the roles of this release again. Its log:",
    command: LOG,
  },
};

const STILL_KNOWN = ["agents", "extender", "page"];
// The rest of the page is up to date all the same.
const IN_PART = ["reports", "DeviceTaintRules"];
export const isInPart = (problem) => IN_PART.includes(problem.what);

/** The title, the advice and perhaps a command for a problem of the server's status; `begun`: some state is known. */
export function explained(problem, begun) {
  const found = meaning(problem);
  const placed = isInPart(problem) || STILL_KNOWN.includes(problem.what) ? "" : `${begun ? OLD : NONE} `;
  return { ...found, todo: placed + found.todo };
}

function meaning({ what, text }) {
  if (what === "inventory file") return OF_THE_FILE.find(([end]) => end.test(text))[1];
  const resource = what.startsWith("watch of ") ? what.slice("watch of ".length) : null;
  if (resource === null) return KNOWN[what] ?? { title: what, todo: "The extender's log has more:", command: LOG };
  if (/^40[13] /.test(text)) {
    return {
      title: `The API server refuses the extender's watch of ${resource}`,
      todo: `The extender's token or its roles are gone or outdated. Apply the manifests again:`,
      command: "kubectl apply --server-side -k my-cluster",
    };
  }
  if (/^404 /.test(text)) {
    return {
      title: `The API server does not serve ${resource}`,
      todo: `The CustomResourceDefinition is missing. Apply the manifests again:`,
      command: "kubectl apply --server-side -k my-cluster",
    };
  }
  return {
    title: `The extender's watch of ${resource} is lost`,
    todo: `The extender connects again by itself. If this lasts, check the API server and the network policies; the extender's log:`,
    command: LOG,
  };
}
