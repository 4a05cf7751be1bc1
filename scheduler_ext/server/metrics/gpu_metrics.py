"""The text of the metrics about GPUs, built again only for nodes that changed since the last scrape."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.server.metrics.gpu_families import FAMILIES, Detail, cluster_lines, headed, node_lines
from scheduler_ext.sources.source_status import Watched
from scheduler_ext.views.node_usage import Amounts, Instances, NodeUsage, node_usage, total


class _Node:
    """A node at the last scrape. Its single GPUs are kept as text only."""

    __slots__ = ("by_model", "info", "instances", "lines")

    def __init__(self, info: NodeInfo, usage: NodeUsage, detail: Detail) -> None:
        self.info = info
        self.by_model = usage.by_model
        self.instances = usage.instances
        self.lines = node_lines(info.name, usage, detail) if detail != "cluster" else ()


class GpuText:
    """Renders FAMILIES; for one thread at a time."""

    def __init__(
        self, source: Watched, resources: ResourceNames, headroom_percent: int, detail: Detail
    ) -> None:
        self._source = source
        self._resources = resources
        self._headroom_percent = headroom_percent
        self._detail: Detail = detail
        self._nodes: dict[str, _Node] = {}
        self._rendered: tuple[Snapshot | None, bytes] = (None, b"")

    def render(self) -> bytes:
        """The exposition text; that of the last scrape if nothing has changed."""
        snapshot = self._source.snapshot
        if snapshot is None:
            return b""
        if self._rendered[0] is not snapshot:
            self._look_at(snapshot)
            self._rendered = snapshot, b"".join(self._families())
        return self._rendered[1]

    def _look_at(self, snapshot: Snapshot) -> None:
        before, now = self._nodes, {}
        for name, node in snapshot.nodes.items():
            known = before.get(name)
            if known is None or known.info is not node.info:
                usage = node_usage(node, self._resources, self._headroom_percent)
                known = _Node(node.info, usage, self._detail)
            now[name] = known
        self._nodes = now

    def _families(self) -> Iterator[bytes]:
        if self._detail == "cluster":
            lines = cluster_lines(self._by_model(), self._instances())
            yield from (headed(family, [text]) for family, text in zip(FAMILIES, lines, strict=True))
            return
        nodes = [node.lines for node in self._nodes.values()]
        for number, family in enumerate(FAMILIES):
            yield headed(family, [lines[number] for lines in nodes])

    def _by_model(self) -> dict[str, Amounts]:
        found: dict[str, list[Amounts]] = {}
        for node in self._nodes.values():
            for model, amounts in node.by_model.items():
                found.setdefault(model, []).append(amounts)
        return {model: total(each) for model, each in found.items()}

    def _instances(self) -> dict[tuple[str, str], Instances]:
        found: dict[tuple[str, str], list[Instances]] = {}
        for node in self._nodes.values():
            for key, each in node.instances.items():
                found.setdefault(key, []).append(each)
        return {key: Instances(*map(sum, zip(*each, strict=True))) for key, each in found.items()}
