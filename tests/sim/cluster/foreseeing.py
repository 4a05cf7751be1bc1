"""simulate cluster with plain values."""

from __future__ import annotations

import json
from collections.abc import Sequence

from scheduler_ext.sim.cluster.simulation import simulate
from scheduler_ext.wire.config import Configuration
from tests.extender.foreseeing import read, state_of
from tests.kube_objects import Json


def foreseen(pods: Sequence[Json], *objects: Json, config: Configuration | None = None) -> list[Json]:
    """The outcome of these pods, item by item."""
    simulation = simulate(read(*pods), state_of(*objects), config or Configuration())
    json.dumps(simulation)  # plain values only
    items: list[Json] = simulation["items"]
    return items
