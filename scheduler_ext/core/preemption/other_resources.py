"""Resources that are not ours to see: victims of ours free as much of them as kube-scheduler's own do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import lcm

from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.preemption.victim_search import Need


class Freed:
    """What kube-scheduler's own victims free, as far as they are known, of what is not ours to see.

    ``staying`` is what those hold whom it names and who must not leave: others are to free that instead.
    """

    def __init__(
        self, pods: Sequence[BoundPod], unknown: int, staying: Sequence[Mapping[str, Fraction]] = ()
    ) -> None:
        self._pods = pods
        self._unknown = unknown
        self._staying = staying

    def needs(
        self, asked: Mapping[str, Fraction], pods: Sequence[BoundPod], leaving: Sequence[BoundPod]
    ) -> Iterator[Need]:
        """What other victims must free of each resource: as much as those, or as much as is asked."""
        # Who is gone already has freed it, whoever is named in its place.
        gone = [*leaving, *(pod for pod in self._pods if not pod.holds)]
        for name, amount in asked.items():
            if name == "pods":
                continue
            freed = _sum([*(pod.other_requests for pod in self._pods), *self._staying], name)
            much = min(freed, amount) - _sum([pod.other_requests for pod in gone], name)
            gains = [_amount(pod.other_requests, name) for pod in pods]
            scale = lcm(much.denominator, *(gain.denominator for gain in gains))
            yield Need(int(much * scale), [int(gain * scale) for gain in gains])
        # Every pod has a place of its own on a node.
        places = min(1, len(self._pods) + self._unknown) - len(gone) - self._unknown
        yield Need(places, [1] * len(pods))


def _sum(requests: Sequence[Mapping[str, Fraction]], name: str) -> Fraction:
    return sum((_amount(each, name) for each in requests), Fraction(0))


def _amount(requests: Mapping[str, Fraction], name: str) -> Fraction:
    return max(Fraction(0), requests.get(name, Fraction(0)))
