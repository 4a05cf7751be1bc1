// The groups of the map, the order of the cells in them, and their places.

const SIZES = [22, 18, 16, 14, 12, 10, 9, 8, 7, 6, 5, 4];
const MOST_HEIGHT = 260;
const MOST_HEIGHT_OF_MANY = 400;
const MOST_CELLS_HEIGHT = 190;
const HEAD_HEIGHT = 44;
const TROUBLE_HEIGHT = 26;
// Of one kind, such as "12 missing"; more lines are lower than the first.
const TROUBLE_WIDTH = 80;
const TROUBLE_LINE = 18;
const BLOCK_WIDTH = 172;
const LEAST_BLOCK_WIDTH = 130;
// If the names of the groups alone are too high, larger cells may add this much.
const FOR_LARGER_CELLS = 1.25;
const GAP = 18;
const LINE_GAP = 10;
const MOST_GROUPS = 24;
// From this number of nodes on, the map shows pools unless its reader chooses models.
const MANY_NODES = 200;

/** The default grouping of nodes: large clusters by pool, if most nodes have one. */
export function usualGrouping(nodes) {
  const pooled = nodes.filter((node) => node.pool).length;
  return nodes.length > MANY_NODES && pooled > nodes.length / 2 ? "pool" : "model";
}

/** A node's part in a group: in a group by model, its GPUs of these models. */
export const partIn = (group, node) => (group.by === "model" ? node.sumOf(group.models) : node.sum);

const keysOf = {
  model: (node) => (node.models.length ? node.models : ["no GPU"]),
  pool: (node) => [node.pool],
};

/** Nodes by pool or by the models of their GPUs, the largest group first; many small groups are joined. */
export function grouped(nodes, by) {
  const found = new Map();
  for (const node of nodes) {
    for (const key of keysOf[by](node)) {
      if (!found.has(key)) found.set(key, { by, key, nodes: [], other: false });
      found.get(key).nodes.push(node);
    }
  }
  let groups = [...found.values()].sort((a, b) => b.nodes.length - a.nodes.length || (a.key < b.key ? -1 : 1));
  if (groups.length > MOST_GROUPS) {
    const rest = groups.slice(MOST_GROUPS - 1);
    const together = [...new Set(rest.flatMap((group) => group.nodes))];
    groups = [...groups.slice(0, MOST_GROUPS - 1), { by, key: null, nodes: together, other: true, rest: rest.map((group) => group.key) }];
  }
  for (const group of groups) group.models = by === "model" ? (group.rest ?? [group.key]) : modelsOf(group.nodes);
  return groups;
}

/** The models of the nodes' GPUs, the one on most nodes first. */
function modelsOf(nodes) {
  const on = new Map();
  for (const node of nodes) for (const model of node.models) on.set(model, (on.get(model) ?? 0) + 1);
  return [...on].sort((a, b) => b[1] - a[1]).map(([model]) => model);
}

/** Missing nodes before nodes with sick GPUs before stale nodes before all others. */
const troubleIn = (sum) => 4 * sum.missing + (sum.sick ? 2 : 0) + sum.stale;

/** The nodes of a group, which come sorted by name, in an order of the map: `state`, `load` or `name`. */
export function ordered(group, order) {
  if (order === "name") return group.nodes;
  const value = order === "load"
    ? (sum) => (sum.well ? sum.held / sum.well : -1)
    : troubleIn;
  const values = new Map(group.nodes.map((node) => [node, value(partIn(group, node))]));
  return [...group.nodes].sort((a, b) => values.get(b) - values.get(a));
}

/** Give each group its columns and rows; returns the largest cell size that keeps all groups visible. */
export function lay(groups, width) {
  const least = leastHeight(groups, width, SIZES.at(-1)).height;
  const nodes = groups.reduce((sum, group) => sum + group.nodes.length, 0);
  const most = Math.max(nodes > MANY_NODES ? MOST_HEIGHT_OF_MANY : MOST_HEIGHT, least * FOR_LARGER_CELLS);
  for (const size of SIZES) {
    const { height, rows } = leastHeight(groups, width, size);
    if (height <= most) {
      arrange(groups, width, size, rows);
      return size;
    }
  }
}

/** The number of rows that gives the lowest height of the groups. */
function leastHeight(groups, width, size) {
  let best = { height: Infinity, rows: 1 };
  for (let rows = 1; rows <= Math.max(1, Math.floor(MOST_CELLS_HEIGHT / size)); rows += 1) {
    const height = arrange(groups, width, size, rows);
    if (height < best.height) best = { height, rows };
  }
  return best;
}

function troubleHeight({ troubles, width }) {
  if (!troubles.length) return 0;
  const across = Math.max(1, Math.floor(width / TROUBLE_WIDTH));
  return TROUBLE_HEIGHT + TROUBLE_LINE * (Math.ceil(troubles.length / across) - 1);
}

/** Groups of at most so many rows side by side, line by line; returns their height. */
function arrange(groups, width, size, rows) {
  const most = Math.max(1, Math.floor(width / size));
  // Two side by side on a phone.
  const block = Math.min(width, BLOCK_WIDTH, Math.max(LEAST_BLOCK_WIDTH, Math.floor((width - GAP) / 2)));
  let [sum, left, line] = [0, 0, 0];
  for (const group of groups) {
    const number = group.nodes.length;
    group.across = Math.min(most, Math.max(Math.floor(block / size), Math.ceil(number / rows)));
    group.down = Math.ceil(number / group.across);
    group.width = Math.max(block, group.across * size);
    if (group.width > left) {
      sum += line;
      [left, line] = [width, 0];
    }
    left -= group.width + GAP;
    line = Math.max(line, HEAD_HEIGHT + group.down * size + troubleHeight(group) + LINE_GAP);
  }
  return sum + line - LINE_GAP;
}

