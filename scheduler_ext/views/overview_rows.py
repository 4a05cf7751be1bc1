"""The rows of all nodes, and which of them changed since when."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import NamedTuple

from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.views.overview import node_row
from scheduler_ext.wire.extender_args import encode_json

# Removed nodes are remembered for pages that have not seen the removal yet; later pages get everything again.
_MOST_GONE = 10_000
# So much work at a time, then so long a rest: decisions are made by the same interpreter.
_WORK_S = 0.001
_REST_S = 0.002


class Change(NamedTuple):
    """What changed: rows as JSON, and names of nodes that are gone. ``full``: these are all there are."""

    version: int
    generation: int
    full: bool
    rows: list[bytes]
    gone: list[str]


class OverviewRows:
    """Rows as JSON by node, each with the version at which it changed last.

    ``update`` is for one thread; ``since`` for any, and waits for no computation.
    """

    def __init__(self, resources: ResourceNames, headroom_percent: int) -> None:
        self._resources = resources
        self._headroom_percent = headroom_percent
        self._lock = Lock()
        self._nodes: Mapping[str, Node] = {}
        self._rows: dict[str, tuple[int, bytes]] = {}
        self._gone: OrderedDict[str, int] = OrderedDict()
        # Pages with an older version get everything.
        self._known_from = 0
        self._version = 0
        self._generation = 0

    @property
    def version(self) -> int:
        """Grows with every change; 0 before the first snapshot."""
        return self._version

    def update(self, snapshot: Snapshot) -> None:
        """Take a snapshot: rows of nodes that are the same objects as before stay."""
        if self._version and snapshot.generation == self._generation:
            return
        nodes = dict(snapshot.nodes)
        changed = self._changed(nodes)
        with self._lock:
            version = self._version + 1
            for name in [name for name in self._rows if name not in nodes]:
                self._drop(name, version)
            for name, row in changed.items():
                if row is None:
                    self._drop(name, version)
                elif name not in self._rows or self._rows[name][1] != row:
                    self._rows[name] = version, row
                    self._gone.pop(name, None)
            while len(self._gone) > _MOST_GONE:
                _, self._known_from = self._gone.popitem(last=False)
            self._nodes, self._generation, self._version = nodes, snapshot.generation, version

    def since(self, version: int) -> Change:
        """What changed after this version; everything where that is not known any more."""
        with self._lock:
            full = not self._known_from <= version <= self._version or version == 0
            rows = [row for at, row in self._rows.values() if full or at > version]
            gone = [] if full else [name for name, at in self._gone.items() if at > version]
            return Change(self._version, self._generation, full, rows, gone)

    def _changed(self, nodes: Mapping[str, Node]) -> dict[str, bytes | None]:
        rows: dict[str, bytes | None] = {}
        rest_at = time.monotonic() + _WORK_S
        for name, node in nodes.items():
            if self._nodes.get(name) is node:
                continue
            row = node_row(node, self._resources, self._headroom_percent)
            rows[name] = encode_json(row) if row is not None else None
            if time.monotonic() > rest_at:
                time.sleep(_REST_S)
                rest_at = time.monotonic() + _WORK_S
        return rows

    def _drop(self, name: str, version: int) -> None:
        if self._rows.pop(name, None) is not None:
            self._gone[name] = version
            self._gone.move_to_end(name)
