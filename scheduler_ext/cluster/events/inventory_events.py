"""Events on Nodes: stale reports, nodes without an agent, and GPU memory that no known pod uses."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from scheduler_ext.cluster.events.share_nodes import Warn
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.node_labels import AGENT_LABEL

STALE = "GPUInventoryStale"
UNLABELLED = "GPUNodeUnlabelled"
UNACCOUNTED = "GPUUnaccountedUsage"
# More nodes than this with one problem get one Event, about the first of them.
_APART = 5
# CUDA contexts of monitoring tools take less.
_LEAST_MIB = 1024
_LEAST_PERCENT = 5


class InventoryEvents:
    """Keeps the problems of nodes and writes their Events while they last. For one thread."""

    def __init__(self, warn: Warn) -> None:
        self._warn = warn
        # By reason and node: the uid of the node, and the note.
        self._found: dict[str, dict[str, tuple[str | None, str]]] = {
            STALE: {},
            UNLABELLED: {},
            UNACCOUNTED: {},
        }

    def follow(self, infos: Mapping[str, NodeInfo | None], unlabelled: Collection[str] = ()) -> None:
        """Look at nodes that changed; ``unlabelled`` are those without a label that brings an agent."""
        for name, info in infos.items():
            notes = {
                STALE: _stale(info) if name not in unlabelled else None,
                UNLABELLED: _no_agent(name) if name in unlabelled else None,
                UNACCOUNTED: _unaccounted(info),
            }
            for reason, note in notes.items():
                self._found[reason].pop(name, None)
                if info is not None and note is not None:
                    self._found[reason][name] = (info.uid, note)
        # All problems, not only new ones: a standby writes no Events, and the API server drops old ones.
        for reason, found in self._found.items():
            if len(found) <= _APART:
                for name, (uid, note) in found.items():
                    self._warn(name, uid, reason, note, "")
                continue
            name, (uid, note) = next(iter(found.items()))
            more = f"{note}; {len(found) - 1} more nodes are in the same trouble"
            self._warn(name, uid, reason, more, "many")


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
    """Names the GPUs with much unaccounted memory; the amount, which changes all the time, is left out."""
    if info is None or info.report is None:
        return None
    gpus = [
        f"GPU {device.index} ({device.uuid})"
        for device in info.report.devices
        if (device.memory.unaccounted_mib or 0)
        >= max(_LEAST_MIB, device.memory.total_mib * _LEAST_PERCENT // 100)
    ]
    if not gpus:
        return None
    more = f" and {len(gpus) - 4} more" if len(gpus) > 4 else ""
    return (
        f"memory of {', '.join(gpus[:4])}{more} is used by no pod that holds it; it is not handed out again: "
        "look for processes outside of pods, or pods that see all GPUs"
    )
