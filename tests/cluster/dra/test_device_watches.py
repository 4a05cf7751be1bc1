"""A running extender on a cluster with Dynamic Resource Allocation."""

from __future__ import annotations

import pytest

from scheduler_ext.cluster.client.transport import Transport
from scheduler_ext.cluster.dra import device_watches as watches_module
from scheduler_ext.cluster.dra.discovery import discovered
from scheduler_ext.cluster.one_shot import cluster_state
from scheduler_ext.wire.config import Configuration
from tests.cluster.api.api_faults import Hang, Refuse
from tests.cluster.api.api_paths import NODES, PODS
from tests.cluster.api.api_requests import Request, lists
from tests.cluster.api.api_server import ApiServer
from tests.cluster.dra.fixtures import CLAIMS, CLASSES, ROOT, RULES, SERVED, SLICES, Serve
from tests.cluster.following import eventually
from tests.cluster.living import TWO, Living
from tests.dra_objects import (
    device_class,
    gpu_device,
    request,
    resource_claim,
    resource_slice,
    taint_rule,
)
from tests.kube_objects import Json, node, pod


def asking(*claims: str) -> Json:
    """A pod that asks through claims only."""
    entries = [{"name": name, "resourceClaimName": name} for name in claims]
    return pod("claimant", resourceClaims=entries)


def is_discovery(asked: Request) -> bool:
    return asked.path.startswith(ROOT)


@pytest.fixture
def dra(living: Living, serve: Serve) -> Living:
    """Beside a and b, of a device plugin, a node c with two GPUs of DRA."""
    serve(**SERVED)
    store = living.server.store
    store.put(CLASSES, device_class())
    store.put(SLICES, resource_slice("c", [gpu_device(0, node="c"), gpu_device(1, node="c")]))
    store.put(NODES, node("c"))
    return living


def test_a_node_of_slices_fits_until_claims_hold_its_gpus(dra: Living) -> None:
    dra.start()
    assert dra.fitting() == "abc"
    assert dra.fitting(TWO) == "c"
    store = dra.server.store
    store.put(CLAIMS, resource_claim("one", on="c", devices=["gpu-0"]))
    dra.fits("", TWO)
    assert dra.fitting() == "abc"
    store.put(CLAIMS, resource_claim("two", on="c", devices=["gpu-1"]))
    dra.fits("ab")
    store.delete(CLAIMS, "one", "default")
    dra.fits("abc")


def test_changes_of_slices_classes_and_rules_are_followed(dra: Living) -> None:
    dra.start()
    store = dra.server.store
    store.put(SLICES, resource_slice("c", [gpu_device(0)], generation=2, slices=2))
    dra.fits("ab")
    store.put(SLICES, resource_slice("c", [gpu_device(1)], name="second", generation=2, slices=2))
    dra.fits("c", TWO)
    store.put(RULES, taint_rule("sick", driver="gpu.nvidia.com", pool="c", device="gpu-1"))
    dra.fits("", TWO)
    store.delete(RULES, "sick")
    dra.fits("c", TWO)
    store.put(CLASSES, device_class(extended=None))
    dra.fits("ab")
    store.put(CLASSES, device_class())
    dra.fits("abc")
    store.delete(SLICES, "second")
    dra.fits("ab")


def test_all_lists_are_needed_before_the_first_answer(dra: Living) -> None:
    hanging = dra.server.faults.place(Hang(), lists(CLAIMS), times=None)
    dra.live.start()
    dra.server.log.wait_for(lists(CLAIMS))
    eventually(lambda: dra.notes().get("watch-resourceslices") == "ok")
    assert dra.live.snapshot is None
    assert not dra.ready()
    assert dra.notes()["watch-resourceclaims"] == "failed"
    hanging.lift()
    eventually(dra.ready)
    assert dra.fitting() == "abc"


@pytest.mark.parametrize("path", [CLAIMS, RULES])
def test_a_role_without_the_right_to_a_list_keeps_nothing_waiting(dra: Living, path: str) -> None:
    refusal = dra.server.faults.place(Refuse(403, "Forbidden", "no"), lists(path), times=None)
    dra.live.start()
    eventually(dra.ready)
    assert "ab" in dra.fitting()
    name = path.rpartition("/")[2]
    assert dra.notes()[f"watch-{name}"] == (
        "not followed; apply the roles of this release: 403 Forbidden: no"
    )
    assert f"watch of {name}" in [problem.what for problem in dra.live.status().problems]
    failing = dra.server.faults.place(Refuse(500, "InternalError", "later"), lists(path), times=None)
    refusal.lift()
    eventually(lambda: "500" in dra.notes()[f"watch-{name}"])
    assert dra.ready(), "a list that was not needed does not become needed"
    failing.lift()
    dra.fits("abc")
    eventually(lambda: dra.notes()[f"watch-{name}"] == "ok")


def test_a_cluster_that_was_upgraded_is_asked_after_the_outage(
    living: Living, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches_module, "_LOOK_S", 0.01)
    living.start()
    living.server.stop()
    eventually(lambda: living.live.status().problems != [])
    serve(**SERVED)
    living.server.store.put(CLASSES, device_class())
    living.server.store.put(SLICES, resource_slice("c", [gpu_device(0)]))
    living.server.store.put(NODES, node("c"))
    living.server.start()
    living.fits("abc")


BETA = (
    "the cluster serves resource.k8s.io as v1beta2 and v1beta1 and not as v1 (Kubernetes 1.34 or later): GPUs"
    " and claims of Dynamic Resource Allocation are not counted"
)


def test_a_cluster_of_beta_versions_is_named_once(
    living: Living, serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watches_module, "_LOOK_S", 0.01)
    serve(v1beta2=SERVED["v1"], v1beta1=SERVED["v1"])
    living.start()
    assert living.ready()
    assert living.notes()["discovery-dra"] == BETA
    for versions in ("v1beta2", "v1beta1"), ("v1beta1",):
        living.server.stop()
        eventually(lambda: living.live.status().problems != [])
        living.server.log.clear()
        serve(**dict.fromkeys(versions, SERVED["v1"]))
        living.server.start()
        living.server.log.wait_for(lambda asked: asked.path == ROOT)
        eventually(lambda: living.live.status().problems == [])
    eventually(lambda: "as v1beta1 and not" in living.notes()["discovery-dra"])
    said = [record.getMessage() for record in caplog.records]
    assert said.count(BETA) == 1
    assert living.notes()["discovery-dra"] in said


def test_a_cluster_read_once(server: ApiServer, transport: Transport, serve: Serve) -> None:
    """It names the beta versions, and counts devices that are no GPUs as those of a file."""
    server.store.put(NODES, node("c"))
    serve(v1beta2=SERVED["v1"], v1beta1=SERVED["v1"])
    assert cluster_state(transport, "", Configuration()).problems == {"resource.k8s.io": BETA}
    serve(**SERVED)
    server.store.put(CLASSES, device_class())
    server.store.put(SLICES, resource_slice("c", [gpu_device(0)]))
    server.store.put(CLAIMS, resource_claim("monitor", request(adminAccess=True)))
    claims = cluster_state(transport, "", Configuration()).claims
    assert claims is not None
    asked = claims.claim_request("default", ["monitor"])
    assert (asked.units, asked.not_modelled) == ((), ())
    assert [hosts.admit("c") for hosts in claims.hosts("default", ["monitor"], {})] == [True]


def test_a_cluster_that_does_not_say_what_it_has_is_asked_again(dra: Living) -> None:
    silent = dra.server.faults.place(Refuse(500, "InternalError", "later"), is_discovery, times=None)
    dra.live.start()
    eventually(lambda: "500" in dra.notes()["discovery-dra"])
    assert not dra.ready()
    silent.lift()
    eventually(dra.ready)
    assert dra.notes()["discovery-dra"] == "ok"


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({"v1": ("deviceclasses",)}, {}, id="a part of it only"),
        pytest.param(
            {"v1": SERVED["v1"][:3], "v1beta2": ("devicetaintrules",)},
            {"devicetaintrules": f"{ROOT}/v1beta2/devicetaintrules"},
            id="Kubernetes 1.36: rules in v1beta2",
        ),
        pytest.param(SERVED, {"devicetaintrules": RULES}, id="Kubernetes 1.37: rules in v1"),
        pytest.param({"v1": SERVED["v1"][:3]}, {"resourceslices": SLICES}, id="no rules"),
    ],
)
def test_what_a_cluster_serves(
    living: Living,
    transport: Transport,
    serve: Serve,
    versions: dict[str, tuple[str, ...]],
    expected: dict[str, str],
) -> None:
    serve(**versions)
    found = discovered(transport)
    assert found.items() >= expected.items()
    assert bool(found) is bool(expected)


def test_a_waiting_pod_is_known_while_its_claims_ask_gpus(dra: Living) -> None:
    dra.server.store.put(CLAIMS, resource_claim("small", request(2)))
    dra.server.store.put(CLAIMS, resource_claim("nic", request(device_class="nic.example.com")))
    dra.server.store.put(PODS, asking("small"))
    other = asking("nic")
    other["metadata"] |= {"name": "other", "uid": "uid-other"}
    dra.server.store.put(PODS, other)
    dra.start()
    (waiting,) = dra.live.pending()
    assert (waiting.pod.name, [unit.count for unit in waiting.pod.request.units]) == ("claimant", [2])
    dra.server.store.put(CLAIMS, resource_claim("small", on="c", devices=["gpu-0", "gpu-1"], pod="claimant"))
    eventually(lambda: not dra.live.pending())
