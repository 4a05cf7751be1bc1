"""The rank of each GPU among those of the cluster, by value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler_ext.core.gpu.models import GpuModel
from scheduler_ext.core.gpu.value_table import value_of
from scheduler_ext.core.node.columns import Floats, Ints, NodeColumns

# A GPU worth so many times the cheapest has rank 1, and so has a dearer one: a mistyped price does not change
# the others.
_WIDEST = 64.0


@dataclass(frozen=True, eq=False)
class ValueRanks:
    """0 for the cheapest GPUs of a cluster, up to 1, by the logarithm of the value: equal ratios of prices
    count the same for cheap and expensive GPUs. `models` is `[model]`; `nodes` `[state]` is the rank by the
    node's own value, NaN without one, and None if no node has one; `differ` is whether some GPU of the
    cluster is worth more than another."""

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
    node: NodeColumns,
    configured: Mapping[str, float],
    cluster: tuple[Sequence[GpuModel], NodeColumns],
) -> ValueRanks:
    """The ranks of these models and nodes among those of the cluster."""
    every, nodes = cluster
    stated = nodes.value[(nodes.value > 0) & (nodes.count > 0)]
    values = [*(value_of(model, configured) for model in every), *stated.tolist()]
    least = min(values)

    def ranks(of: Floats) -> Floats:
        part: Floats = np.clip(np.log(of / least) / math.log(_WIDEST), 0.0, 1.0)
        return part

    of_models = ranks(np.array([value_of(model, configured) for model in models]))
    own = node.value > 0
    of_nodes = ranks(np.where(own, node.value, np.nan)) if own.any() else None
    return ValueRanks(of_models, of_nodes, max(values) > least)
