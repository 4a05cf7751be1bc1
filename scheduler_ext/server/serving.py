"""What features do in `scheduler-ext serve`.

Serving ── follow a cluster ──► Following: followers of pods and nodes, loops
   │  └─── join a server ─────► Parts: routes, metrics, loops
   └────── asked about pods and nodes while decisions are made and explained"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from scheduler_ext.cluster.following import Follower, Following, Live
from scheduler_ext.extender.preemptor import Advice
from scheduler_ext.feature import installed

if TYPE_CHECKING:
    from pathlib import Path

    from flask import Blueprint
    from prometheus_client.registry import Collector

    from scheduler_ext.background import Background
    from scheduler_ext.core.node.node import NodeInfo, Wait
    from scheduler_ext.core.request.gang_request import GangKey
    from scheduler_ext.explain.waiting import WaitingPods
    from scheduler_ext.extender.answer import Answer
    from scheduler_ext.extender.extender import Extender
    from scheduler_ext.server.explaining import Explaining
    from scheduler_ext.server.metrics.gpu_metrics import GpuText
    from scheduler_ext.sources.source_status import Problem, Source, SourceStatus
    from scheduler_ext.wire.config import Configuration


log = logging.getLogger(__name__)

T = TypeVar("T")
Facts: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Values by their names, by the node or pod that they are about."""


class Text(Protocol):
    """Metrics that are written faster than by a Collector."""

    def render(self) -> bytes:
        """The exposition text."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a feature adds to a server: routes of the inspection listener, metrics, and loops, which start and
    stop with the server."""

    routes: Sequence[Blueprint] = ()
    metrics: Sequence[Collector] = ()
    texts: Sequence[Text] = ()
    loops: Sequence[Background] = ()


@dataclass(frozen=True, slots=True)
class Served:
    """The server that features join."""

    config: Configuration
    source: Source
    extender: Extender
    explaining: Explaining
    waiting: WaitingPods
    gpus: GpuText
    features: Serving
    demo_folder: Path | None = None
    """The files that features have written for the demo."""


class Serving(Follower, Advice):
    """A feature in one extender, made before all else. Each answer is by default that of a feature that is
    off. The methods but `follow` and `join` are called from any thread while requests wait."""

    def join(self, served: Served) -> Parts:
        """Join a server."""
        return Parts()

    def answered(self, verb: str, answer: Answer) -> None:
        """A request is about to be answered."""

    def wait_of(self, uid: str) -> Wait | None:
        """What a waiting pod waits for beside a node of its own."""
        return None

    def group_of(self, uid: str) -> GangKey | None:
        """The group that a waiting pod is to start with."""
        return None

    def facts_of_nodes(self, infos: Sequence[NodeInfo], status: SourceStatus, wall_time: float) -> Facts:
        """What is to be shown of these nodes, by name. Known: `idleGpus`, the UUIDs of GPUs whose pods
        compute nothing."""
        return {}

    def facts_of_pods(self, infos: Sequence[NodeInfo], status: SourceStatus, wall_time: float) -> Facts:
        """What is to be shown of the pods on these nodes, by uid. Known: `idleSeconds`, for how long a pod
        has computed nothing."""
        return {}


class AllFeatures(Serving):
    """The features of an extender as one. What fails in one of them while requests wait is logged, and counts
    as the answer of a feature that is off."""

    def __init__(self, features: Sequence[Serving]) -> None:
        self.features = features

    def follow(self, live: Live) -> Following:
        found = [each.follow(live) for each in self.features]
        return Following(
            pods=[pods for each in found for pods in each.pods],
            nodes=[nodes for each in found for nodes in each.nodes],
            loops=[loop for each in found for loop in each.loops],
        )

    def join(self, served: Served) -> Parts:
        found = [each.join(served) for each in self.features]
        return Parts(
            routes=[routes for each in found for routes in each.routes],
            metrics=[metrics for each in found for metrics in each.metrics],
            texts=[text for each in found for text in each.texts],
            loops=[loop for each in found for loop in each.loops],
        )

    def changed(self) -> None:
        self._each(lambda feature: feature.changed())

    def answered(self, verb: str, answer: Answer) -> None:
        self._each(lambda feature: feature.answered(verb, answer))

    def goes_first(self, info: NodeInfo) -> Collection[str]:
        return set().union(*self._each(lambda feature: feature.goes_first(info)))

    def holds_back(self, uid: str) -> bool:
        return any(self._each(lambda feature: feature.holds_back(uid)))

    def wait_of(self, uid: str) -> Wait | None:
        return next(filter(None, self._each(lambda feature: feature.wait_of(uid))), None)

    def group_of(self, uid: str) -> GangKey | None:
        return next(filter(None, self._each(lambda feature: feature.group_of(uid))), None)

    def facts_of_nodes(self, infos: Sequence[NodeInfo], status: SourceStatus, wall_time: float) -> Facts:
        return _joined(self._each(lambda feature: feature.facts_of_nodes(infos, status, wall_time)))

    def facts_of_pods(self, infos: Sequence[NodeInfo], status: SourceStatus, wall_time: float) -> Facts:
        return _joined(self._each(lambda feature: feature.facts_of_pods(infos, status, wall_time)))

    def problems(self) -> Sequence[Problem]:
        return [*chain.from_iterable(self._each(lambda feature: feature.problems()))]

    def _each(self, ask: Callable[[Serving], T]) -> list[T]:
        """The answers of all features that answer."""
        found = []
        for feature in self.features:
            try:
                found.append(ask(feature))
            except Exception:
                log.exception("%s does not answer; it counts as off", type(feature).__name__)
        return found


def _joined(parts: Iterable[Facts]) -> Facts:
    found: dict[str, dict[str, Any]] = {}
    for part in parts:
        for key, facts in part.items():
            found.setdefault(key, {}).update(facts)
    return found


def servings(config: Configuration) -> AllFeatures:
    """The installed features in an extender of this configuration, without those that are off. Each module
    that a feature names as `serving` has a callable of this name, which makes a Serving, or None if all of
    it is off."""
    made = (import_module(feature.serving).serving(config) for feature in installed() if feature.serving)
    return AllFeatures([each for each in made if each is not None])
