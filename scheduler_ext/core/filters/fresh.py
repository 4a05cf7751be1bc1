"""Is there a recent report of the node's GPUs, or are the requested values known without one?"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from scheduler_ext.core.framework.criterion import Filter, View
from scheduler_ext.core.framework.refusal import MissKind, NearestMiss, Reason
from scheduler_ext.core.node.columns import Bools, Ints, UnitColumns
from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.core.node.node_labels import MAX_MEMORY_MIB
from scheduler_ext.core.node.unreported import REPORTED_VENDORS, cause, label_memory, remedy
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.request.resource_names import shown_resource
from scheduler_ext.core.snapshot.snapshot import Snapshot

_SETTING = (
    "set `inventory.unreported: allow` in the extender's configuration, so that nodes without a fresh report "
    "take whole GPUs and MIG instances by their allocatable"
)
_REPORT = "Fresh report"
# The model name of an unknown product.
_UNNAMED = "UNKNOWN"


class _ReportedValue(NamedTuple):
    """A constraint on a value that may be unknown without a report: its field, the value in words, where that
    is unknown on some states, `[slot, state]`, and whether GPUs of other vendors than those with an agent
    have such a value."""

    field: str
    compares: str
    unknown: Callable[[Snapshot, UnitColumns, Ints], Bools]
    of_all_vendors: bool = True


def _no_model(there: Snapshot, units: UnitColumns, at: Ints) -> Bools:
    unnamed = np.array([model.name == _UNNAMED for model in there.models], np.bool_)
    unknown: Bools = units.offered[:, at] & unnamed[units.model[:, at]]
    return unknown


def _no_capability(there: Snapshot, units: UnitColumns, at: Ints) -> Bools:
    unknown: Bools = units.offered[:, at] & (there.devices.compute_capability[:, at] == 0)
    return unknown


def _no_cuda(there: Snapshot, units: UnitColumns, at: Ints) -> Bools:
    unknown: Bools = units.offered[:, at] & (there.node.cuda[at] == 0)
    return unknown


def _no_memory(_there: Snapshot, units: UnitColumns, at: Ints) -> Bools:
    unknown: Bools = units.offered[:, at] & (units.memory_mib[:, at] == 0)
    return unknown


def _no_free_memory(_there: Snapshot, units: UnitColumns, at: Ints) -> Bools:
    """No label states free memory, and old reports count without it."""
    unknown: Bools = (units.free[:, at] > 0) & (units.free_mib[:, at] == 0)
    return unknown


# By the name of the filter that compares it.
_REPORTED_VALUES = {
    "model": _ReportedValue("models", "model", _no_model),
    "compute-capability": _ReportedValue(
        "min_compute_capability", "compute capability", _no_capability, False
    ),
    "cuda": _ReportedValue("min_cuda", "CUDA version", _no_cuda, False),
    "total-memory": _ReportedValue("min_memory_mib", "total memory", _no_memory),
    "free-memory": _ReportedValue("min_free_mib", "free memory", _no_free_memory),
}


def unknown_values(view: View) -> Mapping[str, Bools]:
    """By the name of the filter that compares it, the states whose value of a constraint is unknown without a
    report, `[state]`."""
    request, there = view.request, view.snapshot
    constrained = {
        name: constraint
        for name, constraint in _REPORTED_VALUES.items()
        if getattr(request, constraint.field)
    }
    if not constrained or not request.units or request.shares is not None:
        return {}
    # Few nodes are so, and all others cost nothing.
    at = np.flatnonzero(there.node.unreported & (there.node.devices > 0)).astype(np.int32)
    if not len(at):
        return {}
    has_agent = np.array([model.vendor in REPORTED_VENDORS for model in there.models], np.bool_)
    found = {}
    for name, constraint in constrained.items():
        states = found[name] = view.everywhere(False)
        for _, units in view.units:
            unknown = constraint.unknown(there, units, at)
            if not constraint.of_all_vendors:
                unknown &= has_agent[units.model[:, at]]
            states[at] |= unknown.any(0)
    return found


class FreshInventory(Filter):
    """Refuses nodes without a recent report. A node known only by its labels takes whole GPUs, and one that
    counts by its allocatable whole GPUs and MIG instances, both for constraints whose values are known."""

    name = "fresh-inventory"
    reason = Reason(
        "node(s) had no fresh GPU inventory",
        "The node's GPUs have no recent report. A node known only by its labels takes whole GPUs only, and no"
        " wish about a value that they do not state, such as free memory.",
        "Check that the node's agent runs and reports, or that the inventory file lists the node. With"
        " `inventory.unreported: allow` such nodes take whole GPUs and MIG instances by their allocatable.",
    )
    kind = MissKind.PASSING

    def passes(self, view: View) -> Bools:
        passed = self._reported(view)
        # ResourceSlices say what DRA hands out, with or without an agent.
        known = [columns.from_slices for _, columns in view.units]
        if known and view.request.shares is None:
            passed = passed | np.logical_and.reduce(known)
        for unknown in unknown_values(view).values():
            passed = passed & ~unknown
        return passed

    def _reported(self, view: View) -> Bools:
        node, request = view.snapshot.node, view.request
        # Freshness does not matter for a node without any GPU: another filter refuses it.
        labels_only = node.estimated & (node.devices > 0)
        if request.shares is not None:
            return node.fresh & ~(labels_only | node.by_allocatable)
        if any(ask.profile is not None for ask in request.units):
            return node.fresh & ~(labels_only & ~node.by_allocatable)
        return node.fresh

    def miss(self, view: View, node: Node) -> NearestMiss:
        have = node.info.freshness if node.state.slots else "none"
        if have == "Fresh":
            have = "labels only"
        unknown = [
            _REPORTED_VALUES[name].compares
            for name, states in unknown_values(view).items()
            if states[view.only]
        ]
        needed = f"{_REPORT} of {unknown[0]}" if unknown else _REPORT
        return NearestMiss(self.name, None, needed, have, "state")

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        what = str(miss.needed).removeprefix(_REPORT).removeprefix(" of ") or "GPUs"
        return f"{node.info.name} has no fresh report of its {what} ({miss.have}): {cause(node.info)}"

    def for_operators(
        self, _miss: NearestMiss, node: Node, request: GpuRequest, fits: Callable[[NodeInfo], bool]
    ) -> str | None:
        info = node.info
        for ask in request.units:
            # No report raises the allocatable of the Node.
            if 0 < info.limit(ask.resource) < ask.count:
                name = shown_resource(ask.resource)
                return f"ask for fewer {name}: {info.name} has {info.limit(ask.resource):,} in all"
        helps = not info.by_allocatable and fits(replace(info, by_allocatable=True))
        report = remedy(info)
        if report is None and info.estimate is not None and info.estimate.memory_mib is None:
            stated = replace(info.estimate, memory_mib=MAX_MEMORY_MIB)
            report = label_memory(info) if fits(replace(info, estimate=stated)) else None
        ways = [way for way in (report, _SETTING if helps else None) if way is not None]
        return f"have an operator {', or '.join(ways)}" if ways else None
