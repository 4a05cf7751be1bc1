"""What features do in `scheduler-ext serve`.

Serving ── follow a cluster ──► Following: followers of pods and nodes, loops
   │  └─── join a server ─────► Parts: routes, metrics, loops
   └────── asked about pods and nodes while decisions are made and explained"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from scheduler_ext.cluster.following import Following, Live
from scheduler_ext.feature import installed

if TYPE_CHECKING:
    from pathlib import Path

    from flask import Blueprint
    from prometheus_client.registry import Collector

    from scheduler_ext.background import Background
    from scheduler_ext.core.node.node import NodeInfo, Wait
    from scheduler_ext.core.request.gang_wish import GangKey
    from scheduler_ext.explain.waiting import WaitingPods
    from scheduler_ext.extender.answer import Answer
    from scheduler_ext.extender.extender import Extender
    from scheduler_ext.server.explaining import Explaining
    from scheduler_ext.server.metrics.gpu_metrics import GpuText
    from scheduler_ext.sources.source_status import Problem, Source, SourceStatus
    from scheduler_ext.wire.config import Configuration


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
    features: Sequence[Serving] = ()
    demo_folder: Path | None = None
    """The files that features have written for the demo."""


class Serving:
    """A feature in one extender, made before all else. Each answer is by default that of a feature that is
    off. The methods but `follow` and `join` are called from any thread while requests wait."""

    def follow(self, live: Live) -> Following:
        """Join an extender that follows a cluster. `live` is not complete yet: it is to be kept, not used."""
        return Following()

    def join(self, served: Served) -> Parts:
        """Join a server."""
        return Parts()

    def changed(self) -> None:
        """The followed cluster has changed."""

    def answered(self, verb: str, answer: Answer) -> None:
        """A request is about to be answered."""

    def goes_first(self, info: NodeInfo) -> Collection[str]:
        """The uids of the pods on a node that preempt evicts before others that are equal otherwise."""
        return ()

    def holds_back(self, uid: str) -> bool:
        """Whether preempt evicts nothing for a waiting pod, because it is about to get a place."""
        return False

    def wait_of(self, uid: str) -> Wait | None:
        """What a waiting pod waits for beside a node of its own."""
        return None

    def group_of(self, uid: str) -> GangKey | None:
        """The group that a waiting pod is to start with."""
        return None

    def facts_of_nodes(
        self, infos: Iterable[NodeInfo], status: SourceStatus, wall_time: float
    ) -> Mapping[str, Mapping[str, Any]]:
        """What is to be shown of these nodes, by name, as plain JSON values with names of their own."""
        return {}

    def facts_of_pods(
        self, infos: Iterable[NodeInfo], status: SourceStatus, wall_time: float
    ) -> Mapping[str, Mapping[str, Any]]:
        """What is to be shown of the pods on these nodes, by uid, likewise."""
        return {}

    def problems(self) -> Sequence[Problem]:
        """What does not work."""
        return ()


def facts_of_nodes(
    features: Iterable[Serving], infos: Sequence[NodeInfo], status: SourceStatus, wall_time: float
) -> dict[str, dict[str, Any]]:
    """Those of all features."""
    return _joined(each.facts_of_nodes(infos, status, wall_time) for each in features)


def facts_of_pods(
    features: Iterable[Serving], infos: Sequence[NodeInfo], status: SourceStatus, wall_time: float
) -> dict[str, dict[str, Any]]:
    """Those of all features."""
    return _joined(each.facts_of_pods(infos, status, wall_time) for each in features)


def _joined(parts: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for part in parts:
        for key, facts in part.items():
            found.setdefault(key, {}).update(facts)
    return found


def servings(config: Configuration) -> tuple[Serving, ...]:
    """The installed features in an extender of this configuration, without those that are off: the function
    `serving` of their modules returns None."""
    made = (import_module(feature.serving).serving(config) for feature in installed() if feature.serving)
    return tuple(each for each in made if each is not None)
