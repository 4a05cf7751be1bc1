"""Watches all pods of many gangs and judges what it sees: no gang that runs in part for too long, no GPU
twice, and no gang that fits and does not start."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tests.e2e.cluster.api import Api, Json
from tests.e2e.gangs.gang_cluster import GATE

_LOOK_S = 0.2


@dataclass
class Seen:
    """A pod as it was seen last."""

    name: str
    gang: str
    size: int
    gpus: int
    priority: int
    created_at: str
    gated: bool
    node: str | None
    nominated: str | None
    leaving: bool


@dataclass
class Account:
    """One gang over time, in seconds in which the system was up."""

    partial_s: float = 0.0
    fits_s: float = 0.0
    longest_partial_s: float = 0.0
    longest_fits_s: float = 0.0


class GangWatch(threading.Thread):
    """`free_of` has the GPUs of each node that exists; `is_up` says whether time counts."""

    def __init__(self, api: Api, path: str, capacity: Mapping[str, int], is_up: Callable[[], bool]) -> None:
        super().__init__(daemon=True)
        self._api, self._path = api, path
        self.capacity = dict(capacity)
        self._is_up = is_up
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._pods: dict[str, Seen] = {}
        self._known: set[str] = set()
        self._finished: set[str] = set()
        self.accounts: dict[str, Account] = {}
        self.problems: list[str] = []
        self._judge = threading.Thread(target=self._judge_often, daemon=True)

    def start(self) -> None:
        super().start()
        self._judge.start()

    def stop(self) -> None:
        """Judge no more."""
        self.stopping.set()

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                for kind, pod in self._api.watch(self._path, self.stopping.is_set):
                    self._see(kind, pod)
            except Exception:
                # The API server is paused.
                self.stopping.wait(0.5)

    def _see(self, kind: str, pod: Json) -> None:
        metadata, spec = pod["metadata"], pod.get("spec", {})
        notes = metadata.get("annotations") or {}
        gang = notes.get(GATE)
        if gang is None:
            return
        name = metadata["name"]
        limits = spec["containers"][0]["resources"].get("limits", {})
        with self._lock:
            self._known.add(name)
            if kind == "DELETED":
                self._pods.pop(name, None)
                return
            self._pods[name] = Seen(
                name,
                gang,
                int(notes[f"{GATE}-size"]),
                int(limits.get("nvidia.com/gpu", "0")),
                spec.get("priority", 0),
                metadata["creationTimestamp"],
                GATE in [gate["name"] for gate in spec.get("schedulingGates") or ()],
                spec.get("nodeName"),
                pod.get("status", {}).get("nominatedNodeName"),
                "deletionTimestamp" in metadata,
            )

    def _of(self, gang: str) -> list[Seen]:
        with self._lock:
            return [pod for pod in self._pods.values() if pod.gang == gang]

    def living(self, gang: str) -> set[str]:
        """The members that are not being deleted."""
        return {pod.name for pod in self._of(gang) if not pod.leaving}

    def bound(self, gang: str) -> set[str]:
        """The members on nodes."""
        return {pod.name for pod in self._of(gang) if not pod.leaving and pod.node}

    def gone(self, names: Iterable[str]) -> set[str]:
        """Those that were seen and are gone or leaving."""
        with self._lock:
            return {
                name
                for name in names
                if name in self._known and (name not in self._pods or self._pods[name].leaving)
            }

    def on(self, node: str) -> list[str]:
        """The pods on a node."""
        with self._lock:
            return [pod.name for pod in self._pods.values() if pod.node == node]

    def bound_names(self) -> list[str]:
        """All pods on nodes."""
        with self._lock:
            return sorted(pod.name for pod in self._pods.values() if pod.node)

    def finish(self, gang: str) -> None:
        """A gang ends, and is not judged any more."""
        with self._lock:
            self._finished.add(gang)

    def _judge_often(self) -> None:
        before = time.monotonic()
        while not self.stopping.wait(_LOOK_S):
            now = time.monotonic()
            passed, before = now - before, now
            with self._lock:
                pods = list(self._pods.values())
                finished = set(self._finished)
            self._no_gpu_twice(pods)
            if self._is_up():
                gangs: dict[str, list[Seen]] = {}
                for pod in pods:
                    if pod.gang not in finished and not pod.leaving:
                        gangs.setdefault(pod.gang, []).append(pod)
                self._partial(gangs, min(passed, 1.0))
                self._fitting(gangs, pods, min(passed, 1.0))

    def _no_gpu_twice(self, pods: list[Seen]) -> None:
        used: dict[str, int] = {}
        for pod in pods:
            if pod.node:
                used[pod.node] = used.get(pod.node, 0) + pod.gpus
        for node, count in used.items():
            if count > self.capacity.get(node, 10**6):
                self.problems.append(f"{count} GPUs of {node} are promised")

    def _account(self, gang: str) -> Account:
        return self.accounts.setdefault(gang, Account())

    def _partial(self, gangs: Mapping[str, list[Seen]], passed: float) -> None:
        for name, members in gangs.items():
            account = self._account(name)
            bound = sum(pod.node is not None for pod in members)
            if 0 < bound < members[0].size:
                account.partial_s += passed
                account.longest_partial_s = max(account.longest_partial_s, account.partial_s)
            else:
                account.partial_s = 0.0

    def _fitting(self, gangs: Mapping[str, list[Seen]], pods: list[Seen], passed: float) -> None:
        free = free_gpus(self.capacity, pods)
        fitting = fitting_gangs(gangs, free)
        for name in gangs:
            account = self._account(name)
            account.fits_s = account.fits_s + passed if name in fitting else 0.0
            account.longest_fits_s = max(account.longest_fits_s, account.fits_s)


def free_gpus(capacity: Mapping[str, int], pods: Iterable[Seen]) -> dict[str, int]:
    """The GPUs of each node that no pod has, and none is nominated to."""
    free = dict(capacity)
    for pod in pods:
        where = pod.node or pod.nominated
        if where in free:
            free[where] -= pod.gpus
    return free


def fitting_gangs(gangs: Mapping[str, list[Seen]], free: Mapping[str, int]) -> set[str]:
    """The gangs that have to start, wherever others keep places: those whose members find room beside all
    places that earlier gangs may keep, and one node for each of them."""
    waiting = sorted(
        (
            members
            for members in gangs.values()
            if len(members) >= members[0].size and all(pod.gated for pod in members)
        ),
        key=lambda members: (-members[0].priority, min(pod.created_at for pod in members)),
    )
    # Gangs that have begun and lack places come first, and one of them keeps some.
    kept = max(map(_lacking, gangs.values()), default=0)
    blocked, fitting = kept > 0, set()
    for members in waiting:
        gpus, size = members[0].gpus, members[0].size
        own: dict[str, int] = {}
        for pod in members:
            if pod.nominated is not None:
                own[pod.nominated] = own.get(pod.nominated, 0) + pod.gpus
        rooms = [max(0, left + own.get(node, 0)) // gpus for node, left in free.items()]
        if sum(sorted(rooms, reverse=True)[kept:]) >= size:
            fitting.add(members[0].gang)
            kept += size
        elif not blocked:
            # The first gang that does not fit keeps places.
            blocked = True
            kept += size
    return fitting


def _lacking(members: list[Seen]) -> int:
    """The members without a place of a gang that has begun."""
    if all(pod.gated for pod in members):
        return 0
    without = sum(pod.node is None and pod.nominated is None for pod in members)
    return without + max(0, members[0].size - len(members))
