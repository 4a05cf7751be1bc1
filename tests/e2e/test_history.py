"""The checker of histories finds the errors that it is for; without a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster.api import Json
from tests.e2e.history import (
    Event,
    audited,
    disagreements,
    foreign,
    moved,
    over_promised,
    unannounced,
)
from tests.held import DEVICES
from tests.kube_objects import SHARE, pod

ROOM = {"GPU-0": 100, "n/nvidia.com/gpu": 1}
OURS = "system:serviceaccount:gpu-scheduler:gpu-scheduler-extender"


def share(name: str, mib: int = 60, gpu: str | None = "GPU-0", on: str | None = "n", **more: Any) -> Json:
    told = {f"{DEVICES}main": gpu} if gpu is not None else {}
    return pod(name, {SHARE: str(mib)}, on=on, annotations=told, **more)


def whole(name: str) -> Json:
    return pod(name, {"nvidia.com/gpu": "1"}, on="n")


@pytest.mark.parametrize(
    ("events", "wrong"),
    [
        pytest.param([("ADDED", share("a")), ("ADDED", share("b", 40))], 0, id="what fits"),
        pytest.param(
            [("ADDED", share("a")), ("DELETED", share("a")), ("ADDED", share("b"))], 0, id="one after another"
        ),
        pytest.param(
            [("ADDED", share("a")), ("ADDED", share("b")), ("DELETED", share("a"))],
            1,
            id="for a moment only",
        ),
        pytest.param([("ADDED", share("a", gpu=None))], 1, id="a share on no GPU"),
        pytest.param([("ADDED", share("a", 10, gpu="GPU-7"))], 1, id="a GPU that is not there"),
        pytest.param([("ADDED", whole("a")), ("ADDED", whole("b"))], 1, id="more pods than whole GPUs"),
    ],
)
def test_over_promised(events: list[Event], wrong: int) -> None:
    assert len(list(over_promised(events, ROOM))) == wrong


def test_a_pod_that_moves() -> None:
    assert not list(moved([("ADDED", share("a", on=None)), ("MODIFIED", share("a"))]))
    assert list(moved([("MODIFIED", share("a")), ("MODIFIED", share("a", gpu="GPU-1"))]))


def write(at: int, resource: str, body: Json, code: int = 201, user: str = OURS) -> Json:
    return {
        "requestReceivedTimestamp": f"2026-01-01T00:00:{at:02}.000000Z",
        "objectRef": {"resource": resource, "namespace": "default", "name": body["metadata"]["name"]},
        "responseStatus": {"code": code},
        "user": {"username": user},
        "requestObject": body,
    }


def binding(at: int, gpu: str = "GPU-0", **more: Any) -> Json:
    meta = {"name": "a", "uid": "uid-a", "resourceVersion": "7", "annotations": {f"{DEVICES}main": gpu}}
    return write(at, "pods", {"metadata": meta, "target": {"name": "n"}}, **more)


def intent(at: int, version: str = "7", **more: Any) -> Json:
    holds = {"shares": [{"container": "main", "device": "GPU-0"}]}
    said = {"podUID": "uid-a", "resourceVersion": version, "pod": holds}
    return write(at, "gpureservations", {"metadata": {"name": "n"}, "spec": {"intents": [said]}}, **more)


@pytest.mark.parametrize(
    ("writes", "wrong"),
    [
        pytest.param([intent(1), binding(2)], 0, id="an intent, then its Binding"),
        pytest.param([intent(1, code=504), binding(2)], 1, id="an intent that is perhaps written"),
        pytest.param([binding(1), intent(2)], 1, id="afterwards"),
        pytest.param([intent(1, version="6"), binding(2)], 1, id="at another version of the pod"),
    ],
)
def test_unannounced(writes: list[Json], wrong: int) -> None:
    assert len(list(unannounced(writes, "default"))) == wrong


@pytest.mark.parametrize(
    ("writes", "wrong"),
    [
        pytest.param([binding(1)], 0, id="bound once"),
        pytest.param([], 1, id="bound, and missing from the log"),
        pytest.param([binding(1, code=504)], 0, id="bound though the answer was none"),
        pytest.param([binding(1), binding(2)], 1, id="bound twice"),
        pytest.param([binding(1, gpu="GPU-1")], 1, id="to another GPU"),
    ],
)
def test_disagreements(writes: list[Json], wrong: int) -> None:
    assert len(list(disagreements([("ADDED", share("a"))], writes, "default"))) == wrong


def test_bindings_of_other_users_are_found() -> None:
    assert not list(foreign([binding(1)], "default", OURS))
    assert list(foreign([binding(1, user="admin")], "default", OURS))


def test_the_log_is_read_in_order_and_without_refused_or_unread_entries(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    broken_off = {key: value for key, value in binding(4, code=500).items() if key != "requestObject"}
    written = (binding(2), binding(3, code=409), broken_off, intent(1))
    log.write_text("".join(json.dumps(each) + "\n" for each in written))
    assert audited(log) == [intent(1), binding(2)]
