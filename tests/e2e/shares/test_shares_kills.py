"""Hundreds of pods while the extender is killed in the middle of binds, its calls are delayed or lost, and
the API server is stopped: at the end every pod was bound, and at no moment was a GPU promised twice.

On a cluster of its own, whose extender is the product with faults in it (faulty_extender.py).
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.api import Json, eventually
from tests.e2e.faulty_extender import DELAYS, KILLS, arm
from tests.e2e.history import Recorder
from tests.e2e.shares.share_workload import (
    ROOM_MIB,
    ShareWorkload,
    devices_of,
    running_share_installation,
)
from tests.e2e.workload import MIG_HALF
from tests.held import amount_of
from tests.kube_objects import SHARE

PODS = 300
SEED = 7
PAUSES_S = (1.0, 4.0)
_LONGEST_S = 400.0
_LOOK_S = 0.5
_STAY_S = 2.0
_LEAVE = 8
_MORE = 20
_RENEW_S = 30.0
SIZES = (0.1, 0.25, 0.3, 0.5, 0.6, 1.0)


@pytest.fixture
def fault(tmp_path: Path) -> Path:
    """The file that names the due fault."""
    return tmp_path / "fault"


@pytest.fixture
def workload(tmp_path: Path, fault: Path) -> Iterator[ShareWorkload]:
    faulty = ("-m", "tests.e2e.faulty_extender", fault)
    with (
        running_share_installation(tmp_path, ours=faulty) as installation,
        ShareWorkload(installation) as workload,
    ):
        yield workload


def mixed_pods(workload: ShareWorkload, rng: random.Random) -> Iterator[Json]:
    """Shares of several sizes, some in two containers, in init containers or sidecars; whole GPUs; MIG
    instances; some take time to end. Endless.
    """
    for number in itertools.count():
        grace: Json = {"terminationGracePeriodSeconds": rng.choice((0, 0, 1))}
        if number % 5 == 4:
            resource = MIG_HALF if number % 2 else "nvidia.com/gpu"
            yield workload.pod({resource: str(rng.choice((1, 1, 2)))}, **grace)
            continue
        mib = int(rng.choice(SIZES) * ROOM_MIB)
        pod = workload.share(mib, **grace)
        (main,) = pod["spec"]["containers"]
        if number % 7 == 3:
            pod["spec"]["containers"].append({**main, "name": "second"})
        if number % 7 == 5:
            larger = {SHARE: str(int(rng.choice(SIZES) * ROOM_MIB))}
            pod["spec"]["initContainers"] = [{**main, "name": "load", "resources": {"limits": larger}}]
        if number % 14 == 6:
            small = {SHARE: str(int(SIZES[0] * ROOM_MIB))}
            sidecar = {**main, "name": "beside", "resources": {"limits": small}, "restartPolicy": "Always"}
            pod["spec"]["initContainers"] = [sidecar, {**main, "name": "load"}]
        yield pod


class Churn:
    """Pods are deleted after a while if others wait, until all have had their turn."""

    def __init__(self, workload: ShareWorkload, rng: random.Random) -> None:
        self._workload = workload
        self._rng = rng
        self._since: dict[str, float] = {}
        self.waiting = 0

    @property
    def served(self) -> int:
        """The number of pods that have been bound."""
        return len(self._since)

    def look(self) -> None:
        """Delete some pods if others wait."""
        now = time.monotonic()
        there = self._workload.all_pods()
        bound = [pod["metadata"] for pod in there if "nodeName" in pod["spec"]]
        for meta in bound:
            self._since.setdefault(meta["name"], now)
        self.waiting = len(there) - len(bound)
        ripe = [
            meta["name"]
            for meta in bound
            if "deletionTimestamp" not in meta and now - self._since[meta["name"]] > _STAY_S
        ]
        for name in self._rng.sample(ripe, min(_LEAVE, len(ripe)) if self.waiting else 0):
            self._workload.api.delete(f"/api/v1/namespaces/{self._workload.namespace}/pods/{name}")


def test_nothing_is_promised_twice_and_no_pod_is_forgotten(workload: ShareWorkload, fault: Path) -> None:
    rng = random.Random(SEED)
    for i in range(6):
        workload.add_shared(f"shared-{i}", 4)
    for i in range(4):
        workload.add_whole(f"whole-{i}", 8)
    for i in range(2):
        workload.add_mig(f"mig-{i}", 4)
    workload.publish()
    due: list[str | float] = [*KILLS, *DELAYS, *PAUSES_S]
    rng.shuffle(due)
    installation = workload.installation
    with Recorder(workload.api, workload.namespace) as recorder:
        pods = mixed_pods(workload, rng)
        names = workload.create_all(list(itertools.islice(pods, PODS)))
        churn = Churn(workload, rng)
        renewed = begun = time.monotonic()
        while churn.served < len(names) or due or fault.exists():
            assert time.monotonic() - begun < _LONGEST_S, (
                f"{len(names) - churn.served} pods wait still, and {due} are due; "
                f"{fault.read_text() if fault.exists() else 'nothing'} was about to happen"
            )
            if due and not fault.exists() and all(pod.ready for pod in installation.pods()):
                match due.pop():
                    case str(name):
                        arm(fault, name, rng.randint(1, 3))
                    case float(seconds):
                        with installation.plane.paused_apiserver():
                            time.sleep(seconds)
            if time.monotonic() - renewed > _RENEW_S:
                renewed = time.monotonic()
                workload.renew()
            churn.look()
            if not churn.waiting and (due or fault.exists()):
                # The faults happen while pods are bound.
                names += workload.create_all(list(itertools.islice(pods, _MORE)))
            time.sleep(_LOOK_S)
        installation.await_ready()
        eventually(lambda: not unsettled(workload), "no promise is open", 60.0)
        # The last deleted pods may still be ending.
        eventually(
            lambda: held_by_ledgers(workload) == [held_by_pods(workload)] * 2,
            "both ledgers have what the API server has",
            60.0,
        )
    assert workload.wrongs(recorder) == []
    killed = [pod.containers["extender"].restarts for pod in installation.pods()]
    assert sum(killed) == len(KILLS)


def held_by_ledgers(workload: ShareWorkload) -> list[set[tuple[str, str, str, int]]]:
    """(pod, container, GPU, MiB) in each extender."""
    return [
        {
            (each["name"], each["container"], uuid, each["memoryMiB"])
            for node in workload.ledger(extender).values()
            for uuid, device in node["devices"].items()
            for each in device["holdings"]
        }
        for extender in workload.installation.pods()
    ]


def unsettled(workload: ShareWorkload) -> list[str]:
    """Pods whose Binding has not certainly ended."""
    return [
        each["name"]
        for extender in workload.installation.pods()
        for node in workload.ledger(extender).values()
        for held in (*(device["holdings"] for device in node["devices"].values()), node["unknownDevices"])
        for each in held
        if each["state"] != "Confirmed"
    ]


def held_by_pods(workload: ShareWorkload) -> set[tuple[str, str, str, int]]:
    """(pod, container, GPU, MiB) in the API server."""
    return {
        (pod["metadata"]["name"], each["name"], devices[each["name"]], amount_of(mib))
        for pod in workload.all_pods()
        if (devices := devices_of(pod))
        for each in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])
        for mib in each["resources"]["limits"].values()
    }
