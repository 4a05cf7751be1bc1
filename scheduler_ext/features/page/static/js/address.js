// The open dialog in the address, which other pages may link to: #node=NAME, #node=NAME&gpu=INDEX, #pod=NAMESPACE/NAME.

const written = (text) => encodeURIComponent(text).replaceAll("%2F", "/");

export const nodeAddress = (name, gpu = null) => `#node=${written(name)}${gpu === null ? "" : `&gpu=${gpu}`}`;
export const podAddress = (namespace, name) => `#pod=${written(namespace)}/${written(name)}`;

/** The target of an address: `kind` is node or pod, `gpu` the index of a GPU or null; null for any other address. */
export function targetOf(hash) {
    // A plus sign is no space here.
  const given = new URLSearchParams(hash.slice(1).replaceAll("+", "%2B"));
  const kind = ["node", "pod"].find((each) => given.get(each));
  if (!kind) return null;
  const gpu = given.get("gpu") ?? "";
  return { kind, name: given.get(kind), gpu: kind === "node" && /^\d{1,4}$/.test(gpu) ? Number(gpu) : null };
}
