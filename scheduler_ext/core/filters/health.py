"""Would it fit if the node's sick GPUs were healthy?"""

from collections.abc import Callable

import numpy as np

from scheduler_ext.core.framework.criterion import Filter, View, needed_reach
from scheduler_ext.core.framework.refusal import MissKind, NearestMiss, Reason, device_of, where
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node, NodeInfo
from scheduler_ext.core.request.request import GpuRequest


class Health(Filter):
    """Refuses nodes that lack GPUs only because some are unhealthy; later filters refuse larger shortages."""

    name = "health"
    reason = Reason(
        "node(s) had unhealthy GPUs",
        "The request would fit if the node's unhealthy GPUs were healthy.",
        "See the device's health reason in `scheduler-ext inventory -o json`; reset or replace the GPU.",
    )
    kind = MissKind.UNHEALTHY

    def passes(self, view: View) -> Bools:
        passed = view.everywhere(True)
        for (ask, columns), sick in zip(view.units, view.sick, strict=True):
            if not columns.any_sick:
                continue
            curable = sick.sum(0)
            short, cured = columns.available < ask.count, columns.available + curable
            if columns.by_claim.any():
                # There, healthy devices that come after a sick one are out of reach, too.
                reached = columns.free.sum(0) - columns.unknown
                cured = np.where(columns.by_claim, reached + curable, cured)
                if ask.by_claim and view.request.claims_judged:
                    short = np.where(columns.by_claim, columns.limit < needed_reach(ask), short)
            passed &= ~(short & (cured >= ask.count) & (curable > 0))
        shares = view.request.shares
        if shares is not None:
            free = view.snapshot.devices.share_free_mib
            # Judged by the largest share: only if no healthy GPU accepts it, but an unhealthy one would.
            fits = free >= shares.largest_mib
            passed &= (view.eligible & fits).any(0) | ~(view.shareable & fits).any(0)
        return passed

    def miss(self, view: View, node: Node) -> NearestMiss:
        sick = [column[:, view.only] > 0 for column in view.sick]
        if view.request.shares is not None:
            sick.append((view.shareable & ~view.snapshot.devices.healthy)[:, view.only])
        slot = int(np.any(sick, axis=0).argmax())
        return NearestMiss(self.name, node.uuids[slot], "Healthy", "Unhealthy", "health")

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        reason = _health_reason(node, miss.device)
        return f"{where(node, miss.device)} is unhealthy" + (f" ({reason})" if reason else "")

    def for_operators(
        self, miss: NearestMiss, node: Node, _request: GpuRequest, _fits: Callable[[NodeInfo], bool]
    ) -> str | None:
        gpu = f"{device_of(node, miss.device) or ' a GPU'} of {node.info.name}"
        needs = _health_reason(node, miss.device).partition("; needs ")[2]
        if needs:
            return f"have an operator see to{gpu}: it needs {needs}"
        return f"have an operator reset or replace{gpu}"


def _health_reason(node: Node, uuid: str | None) -> str:
    """The agent's reason, which ends with the remedy if there is one, or the operator's cordon."""
    for device in node.info.devices:
        if device.uuid == uuid:
            return "an operator cordoned it" if device.cordoned else device.health_reason
    return ""
