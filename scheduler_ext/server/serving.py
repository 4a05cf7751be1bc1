"""What features do in `scheduler-ext serve`.

Serving ── follow a cluster ──► Following: followers of pods and nodes, loops
   │  └─── join a server ─────► Parts: routes, metrics, loops
   └────── asked about pods and nodes while decisions are made and explained"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from scheduler_ext.cluster.following import Following
from scheduler_ext.feature import installed

if TYPE_CHECKING:
    from pathlib import Path

    from flask import Blueprint
    from prometheus_client.registry import Collector

    from scheduler_ext.background import Background
    from scheduler_ext.cluster.live import LiveInventory
    from scheduler_ext.core.node.node import NodeInfo, Wait
    from scheduler_ext.core.request.gang_wish import GangKey
    from scheduler_ext.explain.waiting import Waiting
    from scheduler_ext.extender.answer import Answer
    from scheduler_ext.extender.extender import Extender
    from scheduler_ext.server.explaining import Explaining
    from scheduler_ext.server.metrics.gpu_metrics import GpuText
    from scheduler_ext.sources.source_status import Problem, Source
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
    waiting: Waiting
    gpus: GpuText
    past: Path | None = None
    """A JSON array of earlier samples, with which the page's history begins."""


class Serving:
    """A feature in one extender, made before all else. Each answer is by default that of a feature that is
    off. The methods but `follow` and `join` are called from any thread while requests wait."""

    def follow(self, live: LiveInventory) -> Following:
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

    def problems(self) -> Sequence[Problem]:
        """What does not work."""
        return ()


def servings(config: Configuration) -> tuple[Serving, ...]:
    """The installed features in an extender of this configuration, without those that are off: the function
    `serving` of their modules returns None."""
    made = (import_module(feature.serving).serving(config) for feature in installed() if feature.serving)
    return tuple(each for each in made if each is not None)
