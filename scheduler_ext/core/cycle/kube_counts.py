"""kube-scheduler's own counts of GPUs, as far as a snapshot knows them."""

import numpy as np

from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot


def short_by_count(request: GpuRequest, snapshot: Snapshot) -> Bools:
    """The states that kube-scheduler refuses by its own counts, and does not ask about, `[state]`. It counts
    allocatable less requests, and the devices that are left for claims."""
    short = np.zeros(len(snapshot.states), np.bool_)
    for ask in request.units:
        columns = snapshot.units.get(ask.resource) or snapshot.no_units
        left = np.where(columns.by_claim, columns.available, columns.limit)
        # Without a unit in the state, the limit is unknown: its allocatable is most likely without it, too.
        short |= ((left < max(ask.count, 1)) | ~columns.offered_anywhere) & ~columns.open
    if request.shares is not None:
        short |= snapshot.node.share_limit < request.shares.total_mib
    return short
