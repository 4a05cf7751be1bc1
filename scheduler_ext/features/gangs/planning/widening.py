"""Which nodes a search looks at: few likely ones first, because trials on all nodes of a large cluster take
seconds."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from scheduler_ext.features.gangs.planning.draining import Running

# The nodes of the first attempt; up to so many, a search looks at all of them.
AT_FIRST = 64
_TIMES = 4


def widening(
    nodes: frozenset[str], running: Sequence[Running], rank: Callable[[Sequence[Running]], Any]
) -> Iterator[frozenset[str]]:
    """The nodes whose pods have the lowest rank, then four times as many, and last all of them."""
    pods: dict[str, list[Running]] = {name: [] for name in nodes}
    for pod in running:
        if pod.node in pods:
            pods[pod.node].append(pod)
    order = nodes if len(nodes) <= AT_FIRST else sorted(nodes, key=lambda name: (rank(pods[name]), name))
    count = AT_FIRST
    while count < len(nodes):
        yield frozenset(list(order)[:count])
        count *= _TIMES
    yield nodes
