"""Problems that close share nodes to shares, reported by the log, by Events and by a metric."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scheduler_ext.core.node.holdings import holdings_of
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.promisable import is_of_shares
from scheduler_ext.core.request.resource_names import ResourceNames

log = logging.getLogger(__name__)

Warn = Callable[[str, str | None, str, str, str], None]
"""Writes a Warning Event on a node: its name and uid, the reason, the note, and what it is about. An equal
Event is left out for a while."""


@dataclass(frozen=True, slots=True)
class _Problem:
    """The problem of one node; ``pods`` counts pods with a share on an unknown GPU."""

    uid: str | None
    reason: str
    note: str
    pods: int = 0


class ShareNodes:
    """Keeps the nodes that are closed to shares though they have room. ``unplaced`` is for any thread."""

    def __init__(self, warn: Warn, resources: ResourceNames) -> None:
        self._warn = warn
        self._resources = resources
        self._problems: dict[str, _Problem] = {}

    def unplaced(self) -> dict[str, int]:
        """The number of pods that hold a share on an unknown GPU, by node."""
        return {name: found.pods for name, found in list(self._problems.items()) if found.pods}

    def follow(self, infos: Mapping[str, NodeInfo | None]) -> None:
        """Look at nodes that changed."""
        for name, info in infos.items():
            found = self._problem(info) if info is not None else None
            if self._problems.get(name) != found and found is not None:
                log.error("%s", found.note)
            self._problems.pop(name, None)
            if found is not None:
                self._problems[name] = found
        # All problems, not only new ones: a standby writes no Events, and the API server drops old ones.
        for name, found in self._problems.items():
            self._warn(name, found.uid, found.reason, found.note, found.note)

    def _problem(self, info: NodeInfo) -> _Problem | None:
        if any(pod.request.shares is not None for pod in info.pods):
            pods = [f"{pod.namespace}/{pod.name}" for pod in holdings_of(info, self._resources).unplaced]
            if pods:
                note = (
                    f"node {info.name} takes no new share while it has pods whose share is on a GPU that "
                    f"nobody knows: no annotation names one of this node. Another scheduler bound them, or "
                    f"their GPU is gone: {', '.join(pods)}"
                )
                return _Problem(info.uid, "ShareWithoutGPU", note, len(pods))
        if info.share_node and info.allocatable is not None and not is_of_shares(info):
            note = (
                f"node {info.name} is labelled to share its GPUs, but a device plugin hands them out as "
                f"well: take the label off, or keep the plugin away; until then no share is placed here"
            )
            return _Problem(info.uid, "SharedByDevicePlugin", note)
        return None
