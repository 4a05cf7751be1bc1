"""Which changes cure which refusals, by the times of both, to the second."""

from __future__ import annotations

import json
import time

import pytest

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.events import cures as cures_module
from scheduler_ext.core.cache.ledger import Cause
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import assemble, read_objects, read_pods
from scheduler_ext.wire.pod.pod_request import pod_request
from tests.cluster.api.api_server import ApiServer
from tests.cluster.following import eventually
from tests.cluster.living import ONE, SICK, Living
from tests.kube_objects import gpu, gpu_node, inventory


@pytest.fixture
def unfollowed(server: ApiServer, transport: Transport, monkeypatch: pytest.MonkeyPatch) -> Living:
    """A publisher driven by the test: no thread runs, and each change is examined on arrival."""
    monkeypatch.setattr(cures_module, "EVERY_S", 0.0)
    living = Living(server, transport)
    resources = Configuration().resource_names()
    sick = assemble(read_objects(inventory(*(gpu_node(n, [gpu(0, **SICK)]) for n in "ab"))), resources)
    living.extender.replace_nodes(sick.values())
    return living


def healed(living: Living) -> Snapshot:
    """Node b gets a good GPU; the snapshot before it."""
    assert living.live.snapshot is not None
    before = living.live.snapshot
    good = assemble(read_objects(inventory(gpu_node("b", [gpu(0)]))), Configuration().resource_names())
    living.extender.update_nodes(dict(good))
    return before


@pytest.mark.parametrize(
    ("arrived_s", "nudged"),
    [
        pytest.param(44.5, ["b"], id="soon enough after the refusal, and looked at a second later"),
        pytest.param(45.5, [], id="so late that kube-scheduler has known for longer"),
    ],
)
def test_a_release_is_as_late_as_it_arrived(unfollowed: Living, arrived_s: float, nudged: list[str]) -> None:
    assert unfollowed.fitting() == ""
    refused_at = time.monotonic()
    healed(unfollowed)
    unfollowed.live.writers.cures.follow({"b": Cause.POD}, refused_at + arrived_s, unfollowed.live.snapshot)
    assert list(unfollowed.live.writers.recorder._nudges) == nudged


def test_a_change_arrives_when_it_is_heard_of(unfollowed: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at publication, which may be later by the publisher's rest."""
    arrived: list[float] = []
    monkeypatch.setattr(unfollowed.live.writers.cures, "follow", lambda changes, at, now: arrived.append(at))
    before = time.monotonic()
    unfollowed.live._wake()
    heard = time.monotonic()
    unfollowed.live._wake()
    eventually(lambda: time.monotonic() > heard)
    unfollowed.live._publish()
    assert before <= arrived[0] <= heard
    unfollowed.live._publish()
    assert arrived[1] > heard


def test_a_refusal_on_the_snapshot_before_a_change_is_cured_by_it(unfollowed: Living) -> None:
    """A request that began before the change and ended after its examination."""
    before = healed(unfollowed)
    unfollowed.live.writers.cures.follow({"b": Cause.REPORT}, time.monotonic(), unfollowed.live.snapshot)
    request = pod_request(read_pods(json.dumps(ONE).encode())[0], Configuration().resource_names())
    assert isinstance(request, GpuRequest)
    rows = before.rows(["a", "b"])
    unfollowed.extender.refusals.remember(request, rows, before, time.monotonic())
    unfollowed.live.writers.cures.follow({}, time.monotonic(), unfollowed.live.snapshot)
    assert list(unfollowed.live.writers.recorder._nudges) == ["b"]
    # Not forever: a change is examined twice.
    unfollowed.live.writers.recorder._nudges.clear()
    unfollowed.extender.refusals.remember(request, rows, before, time.monotonic())
    unfollowed.live.writers.cures.follow({}, time.monotonic(), unfollowed.live.snapshot)
    assert not unfollowed.live.writers.recorder._nudges
