"""The metrics about GPUs with a series for each model, node or GPU. Tens of thousands of series: their text
is built here, some fifty times as fast as from samples, and again only for nodes that changed since the last
scrape."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.sources.source_status import Watched
from scheduler_ext.views.node_usage import Amounts, Instances, NodeUsage, PerNode, node_usage, total

Detail = Literal["cluster", "node", "device"]
_BYTES_PER_MIB = 2**20
# Characters that act on a terminal instead of being shown, in UTF-8: C0 without the line end, C1, and those
# that end a line, reverse its direction or have no width.
_CONTROL = re.compile(
    rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]"
    rb"|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf"
)


class GpuFamily(NamedTuple):
    """One gauge, of a field of Amounts or Instances; `sparse` if there is no series for 0. `of` is what
    the series are of: the GPUs of a model, the memory of GPUs in bytes, that of GPUs whose use is known, or
    MIG instances."""

    name: str
    what: str
    value: Callable[[Any], int]
    of: Literal["gpus", "memory", "use", "instances"] = "gpus"
    sparse: bool = False


_MEMORY: tuple[tuple[str, str, Literal["memory", "use"]], ...] = (
    ("total", "Memory of GPUs.", "memory"),
    (
        "requested",
        "Memory of GPUs that is promised to pods; all of it for a GPU that is held whole.",
        "memory",
    ),
    ("used", "Memory of GPUs in use, without the driver's reservation.", "use"),
    ("unaccounted", "Memory of GPUs in use without a pod; 0 if the agent does not know.", "use"),
    (
        "free",
        (
            "Memory of GPUs for further pods: 0 for unhealthy and cordoned GPUs, those that are not offered "
            "or are being changed, and shared GPUs whose replicas are all held; no series for GPUs of "
            "Missing nodes."
        ),
        "memory",
    ),
)
FAMILIES = (
    GpuFamily("gpu_extender_gpus", "GPUs, including those known by labels only.", attrgetter("gpus")),
    GpuFamily(
        "gpu_extender_gpus_allocated",
        (
            "GPUs that a pod holds wholly or in part (an instance or a share). A pod whose GPU no agent has "
            "seen yet counts too."
        ),
        attrgetter("allocated"),
    ),
    GpuFamily(
        "gpu_extender_gpus_free",
        (
            "GPUs that no pod holds, not even in part, and that take new pods: neither unhealthy nor "
            "cordoned nor being changed, and offered by the device plugin, by the node's allocatable less "
            "all requests."
        ),
        attrgetter("free"),
    ),
    GpuFamily(
        "gpu_extender_gpus_claimed",
        "Allocated GPUs that a ResourceClaim holds wholly or in part; no series without such GPUs.",
        attrgetter("claimed"),
        sparse=True,
    ),
    GpuFamily(
        "gpu_extender_gpus_unattributed",
        "Allocated GPUs whose holder no agent has reported, a lower bound; no series without such GPUs.",
        attrgetter("unattributed"),
        sparse=True,
    ),
    GpuFamily("gpu_extender_gpus_unhealthy", "GPUs that cannot be used.", attrgetter("unhealthy")),
    *(
        GpuFamily(f"gpu_extender_device_memory_{name}_bytes", what, attrgetter(f"{name}_mib"), of)
        for name, what, of in _MEMORY
    ),
    *(
        GpuFamily(f"gpu_extender_mig_{name}", what, value, "instances")
        for name, what, value in (
            ("instances", "MIG instances.", attrgetter("total")),
            (
                "instances_free",
                "MIG instances for further pods; none on unhealthy and cordoned GPUs, none that is not "
                "offered or is being changed.",
                attrgetter("free"),
            ),
            (
                "slots",
                "GPU slots of the MIG instances; an instance of 3g.40gb has four of eight.",
                attrgetter("slots"),
            ),
            ("slots_free", "GPU slots of the MIG instances for further pods.", attrgetter("free_slots")),
        )
    ),
)


def labels_of(**labels: str) -> str:
    """Label names and values in the order given, between braces."""
    escaped = (
        f'{name}="' + value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') + '"'
        for name, value in labels.items()
    )
    return "{" + ",".join(escaped) + "}"


def visible(text: bytes) -> bytes:
    """Exposition text with control characters of label values escaped as a backslash, which the format
    doubles, and their number."""
    return _CONTROL.sub(lambda found: f"\\\\x{ord(found[0].decode()):02x}".encode(), text)


class NodeLines(NamedTuple):
    """A node at the last scrape: its lines of each of FAMILIES; its single GPUs are kept as text only, and by
    UUID those that pods hold and no process has opened."""

    by_model: Mapping[str, Amounts]
    instances: Mapping[tuple[str, str], Instances]
    lines: tuple[bytes, ...]
    unopened: frozenset[str]


class GpuText:
    """Renders FAMILIES; for one thread at a time."""

    def __init__(
        self, source: Watched, resources: ResourceNames, headroom_percent: int, detail: Detail
    ) -> None:
        self._source = source
        self._detail: Detail = detail
        self._rendered: tuple[Snapshot | None, bytes] = (None, b"")

        def text(node: Node) -> NodeLines:
            usage = node_usage(node, resources, headroom_percent)
            lines = _node_lines(node.info.name, usage, detail) if detail != "cluster" else ()
            unopened = frozenset(gpu.uuid for gpu, amounts in usage.devices if amounts.unopened)
            return NodeLines(usage.by_model, usage.instances, lines, unopened)

        self._nodes = PerNode(text)

    def nodes(self, snapshot: Snapshot) -> dict[str, NodeLines]:
        """The nodes of a snapshot by name."""
        return self._nodes.of(snapshot)

    def render(self) -> bytes:
        """The exposition text; that of the last scrape if nothing has changed."""
        snapshot = self._source.snapshot
        if snapshot is None:
            return b""
        if self._rendered[0] is not snapshot:
            self._rendered = snapshot, b"".join(self._families(snapshot))
        return self._rendered[1]

    def _families(self, snapshot: Snapshot) -> Iterator[bytes]:
        nodes = list(self.nodes(snapshot).values())
        lines = [_cluster_lines(nodes)] if self._detail == "cluster" else [node.lines for node in nodes]
        for number, family in enumerate(FAMILIES):
            yield f"# HELP {family.name} {family.what}\n# TYPE {family.name} gauge\n".encode()
            yield from (each[number] for each in lines)


def _node_lines(node: str, usage: NodeUsage, detail: Detail) -> tuple[bytes, ...]:
    by_model = {labels_of(hostname=node, modelName=model): each for model, each in usage.by_model.items()}
    by_device = {
        # The names and, where DCGM's exporter runs, the values of its labels.
        labels_of(UUID=gpu.uuid, gpu=str(gpu.index), modelName=gpu.product, hostname=node): each
        for gpu, each in usage.devices
    }
    instances = {
        labels_of(hostname=node, modelName=model, profile=profile): each
        for (model, profile), each in usage.instances.items()
    }
    return _lines(by_model, by_model if detail == "node" else by_device, instances)


def _cluster_lines(nodes: Iterable[NodeLines]) -> tuple[bytes, ...]:
    models: dict[str, list[Amounts]] = {}
    profiles: dict[tuple[str, str], list[Instances]] = {}
    for node in nodes:
        for model, amounts in node.by_model.items():
            models.setdefault(model, []).append(amounts)
        for key, instances in node.instances.items():
            profiles.setdefault(key, []).append(instances)
    by_model = {labels_of(modelName=model): total(each) for model, each in sorted(models.items())}
    by_profile = {
        labels_of(modelName=model, profile=profile): Instances(*map(sum, zip(*each, strict=True)))
        for (model, profile), each in sorted(profiles.items())
    }
    return _lines(by_model, by_model, by_profile)


def _lines(
    by_model: Mapping[str, Amounts], by_device: Mapping[str, Amounts], instances: Mapping[str, Instances]
) -> tuple[bytes, ...]:
    # The memory of a GPU that is known by labels only is unknown, which is not the same as 0.
    memory = {labels: amounts for labels, amounts in by_device.items() if amounts.total_mib}
    use = {labels: amounts for labels, amounts in memory.items() if amounts.measured_mib}
    series: dict[str, Mapping[str, Any]] = {
        "gpus": by_model,
        "memory": memory,
        "use": use,
        "instances": instances,
    }
    return tuple(visible(_series(family, series[family.of]).encode()) for family in FAMILIES)


def _series(family: GpuFamily, values: Mapping[str, Any]) -> str:
    scale = _BYTES_PER_MIB if family.of in ("memory", "use") else 1
    return "".join(
        f"{family.name}{labels} {family.value(each) * scale}\n"
        for labels, each in values.items()
        if not family.sparse or family.value(each)
    )
