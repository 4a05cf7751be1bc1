"""Events on Nodes: reports that grow old, nodes that get no agent, and GPU memory that no known pod uses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from scheduler_ext.cluster.events.share_nodes import Warn
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.node_labels import AGENT_LABEL

STALE = "GPUInventoryStale"
UNLABELLED = "GPUNodeUnlabelled"
UNACCOUNTED = "GPUUnaccountedUsage"
# More nodes than this at once are one event, about the first of them.
_APART = 5
# Less is what CUDA contexts of monitoring tools take.
_LEAST_MIB = 1024
_LEAST_PERCENT = 5


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Of one node."""

    uid: str | None
    note: str


class InventoryEvents:
    """Knows which nodes are in trouble; tells of them as long as they are. For one thread."""

    def __init__(self, warn: Warn) -> None:
        self._warn = warn
        self._found: dict[str, dict[str, _Trouble]] = {STALE: {}, UNLABELLED: {}, UNACCOUNTED: {}}

    def follow(self, infos: Mapping[str, NodeInfo | None], unlabelled: Collection[str] = ()) -> None:
        """Nodes that changed; ``unlabelled`` are those of them that no label brings an agent to."""
        for name, info in infos.items():
            notes = {
                STALE: _stale(info) if name not in unlabelled else None,
                UNLABELLED: _no_agent(name) if name in unlabelled else None,
                UNACCOUNTED: _unaccounted(info),
            }
            for reason, note in notes.items():
                self._found[reason].pop(name, None)
                if info is not None and note is not None:
                    self._found[reason][name] = _Trouble(info.uid, note)
        # All of them: a standby was not to tell, and the API server forgets events.
        for reason, troubles in self._found.items():
            self._tell(reason, troubles)

    def _tell(self, reason: str, troubles: Mapping[str, _Trouble]) -> None:
        if len(troubles) <= _APART:
            for name, trouble in troubles.items():
                self._warn(name, trouble.uid, reason, trouble.note, "")
            return
        name = next(iter(troubles))
        others = f"{troubles[name].note}; {len(troubles) - 1} more nodes are in the same trouble"
        self._warn(name, troubles[name].uid, reason, others, "many")


def _stale(info: NodeInfo | None) -> str | None:
    if info is None or info.freshness == "Fresh":
        return None
    word = "old" if info.freshness == "Stale" else "missing"
    return f"the report of its GPUs is {word}: no pod with GPUs goes there before its agent reports again"


def _no_agent(name: str) -> str:
    return (
        "the node has NVIDIA GPUs and no label that brings an agent to it; without a report it takes no pod "
        f"with GPUs after inventory.missingAfter: kubectl label node {name} {AGENT_LABEL}=true"
    )


def _unaccounted(info: NodeInfo | None) -> str | None:
    """GPUs of which much is used by nobody that is known; how much changes all the time, and is not told."""
    if info is None or info.report is None:
        return None
    told = [
        f"GPU {device.index} ({device.uuid})"
        for device in info.report.devices
        if (device.memory.unaccounted_mib or 0)
        >= max(_LEAST_MIB, device.memory.total_mib * _LEAST_PERCENT // 100)
    ]
    if not told:
        return None
    more = f" and {len(told) - 4} more" if len(told) > 4 else ""
    return (
        f"memory of {', '.join(told[:4])}{more} is used by no pod that holds it; it is not handed out again: "
        "look for processes outside of pods, or pods that see all GPUs"
    )
