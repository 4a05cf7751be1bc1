"""The rank of each GPU among those of the cluster, by value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler_ext.core.gpu.models import GpuModel
from scheduler_ext.core.gpu.value_table import value_of
from scheduler_ext.core.node.columns import Floats, Ints

# A GPU worth so many times the cheapest has rank 1, and so has a dearer one. Of two successive prices, the
# higher one counts as so many times the lower one at most. So a mistyped price, or a very low one of hardware
# that is paid for, leaves the differences between the others.
_WIDEST, _WIDEST_GAP = 64.0, 16.0


@dataclass(frozen=True, eq=False)
class ValueRanks:
    """0 for the cheapest GPUs of a cluster, up to 1, by the logarithm of the value: equal ratios of prices
    count the same for cheap and expensive GPUs, up to the widest gap. `models` is `[model]`; `nodes`
    `[state]` is the rank by the node's own value, NaN without one, and None if no node has one; `differ` is
    whether some GPU of the cluster is worth more than another."""

    models: Floats
    nodes: Floats | None
    differ: bool

    def of(self, model: Ints, counts: Floats) -> Floats:
        """The ranks of the GPUs of these models, `[slot, state]`, times how much the rank of their model
        counts, `[model]`."""
        # take() is twice as fast as an index here.
        ranks: Floats = (self.models * counts).take(model)
        if self.nodes is None:
            return ranks
        return np.where(np.isnan(self.nodes), ranks, self.nodes * counts.take(model))


def value_ranks(
    models: Sequence[GpuModel],
    own_values: Floats,
    configured: Mapping[str, float],
    cluster: tuple[Sequence[GpuModel], Floats],
) -> ValueRanks:
    """The ranks of these models, and of nodes with values of their own, as of `Snapshot.own_values`, among
    those of the cluster."""
    every, others = cluster
    values = np.concatenate([[value_of(model, configured) for model in every], others[others > 0]])
    mine = np.array([value_of(model, configured) for model in models])
    own = own_values > 0
    known = np.log(np.unique(np.concatenate([values, mine, own_values[own]])))
    gaps = np.minimum(np.diff(known, prepend=known[0]), math.log(_WIDEST_GAP))
    places = np.minimum(gaps.cumsum() / math.log(_WIDEST), 1.0)
    of_models: Floats = np.interp(np.log(mine), known, places)
    of_nodes = None
    if own.any():
        of_nodes = np.full(len(own), np.nan)
        of_nodes[own] = np.interp(np.log(own_values[own]), known, places)
    return ValueRanks(of_models, of_nodes, bool(values.max() > values.min()))
