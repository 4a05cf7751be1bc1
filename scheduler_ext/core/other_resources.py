"""Resources that are not ours to see: victims of ours free as much of them as kube-scheduler's own do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import lcm

from scheduler_ext.core.node import BoundPod
from scheduler_ext.core.victim_search import Need


class Freed:
    """What kube-scheduler's own victims free, as far as they are known, of what is not ours to see."""

    def __init__(self, pods: Sequence[BoundPod], unknown: int) -> None:
        self._pods = pods
        self._unknown = unknown

    def needs(
        self, asked: Mapping[str, Fraction], pods: Sequence[BoundPod], leaving: Sequence[BoundPod]
    ) -> Iterator[Need]:
        """What other victims must free of each resource: as much as those, or as much as is asked."""
        # Who is gone already has freed it, whoever is named in its place.
        gone = [*leaving, *(pod for pod in self._pods if not pod.holds)]
        for name, amount in asked.items():
            if name == "pods":
                continue
            freed = _sum(self._pods, name)
            much = min(freed, amount) - _sum(gone, name)
            gains = [max(Fraction(0), pod.other_requests.get(name, Fraction(0))) for pod in pods]
            scale = lcm(much.denominator, *(gain.denominator for gain in gains))
            yield Need(int(much * scale), [int(gain * scale) for gain in gains])
        # Every pod has a place of its own on a node.
        places = min(1, len(self._pods) + self._unknown) - len(gone) - self._unknown
        yield Need(places, [1] * len(pods))


def _sum(pods: Sequence[BoundPod], name: str) -> Fraction:
    return sum((max(Fraction(0), pod.other_requests.get(name, Fraction(0))) for pod in pods), Fraction(0))
