"""The DeviceTaintRules of an extender: written for sick and cordoned GPUs, and only its own are removed."""

from __future__ import annotations

import pytest

from scheduler_ext.core.dra.device import DraDevice
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.features.claims import taint_writer as writer_module
from scheduler_ext.features.claims.settings import DraSection
from scheduler_ext.features.claims.taint_writer import TaintWriter
from scheduler_ext.wire.config import Configuration
from tests.cluster.api.api_faults import Refuse
from tests.cluster.api.api_paths import NODES
from tests.cluster.api.api_requests import Request
from tests.cluster.dra.fixtures import CLASSES, RULES, SERVED, SLICES, Serve
from tests.cluster.following import eventually
from tests.cluster.living import SICK, Living
from tests.dra_objects import device_class, gpu_device, resource_slice, taint_rule
from tests.kube_objects import gpu, node

LABEL = {"app.kubernetes.io/managed-by": "gpu-scheduler-extender"}


@pytest.fixture
def dra(living: Living, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Living:
    """A node c of two GPUs by DRA, reported by an agent; the extender writes rules."""
    monkeypatch.setattr(writer_module, "EVERY_S", 0.01)
    serve(**SERVED)
    store = living.server.store
    store.put(CLASSES, device_class())
    store.put(SLICES, resource_slice("c", [gpu_device(0), gpu_device(1)]))
    store.put(NODES, node("c"))
    living.report("c", gpu(0, "GPU-0"), gpu(1, "GPU-1"))
    living.configure(Configuration().with_sections(DraSection(device_taints=True)))
    living.start()
    return living


def looked(living: Living) -> None:
    """Wait for a whole look of the writer."""
    writer = living.loop(TaintWriter)
    reconcile, looks = writer._reconcile, []

    def noted(path: str, snapshot: Snapshot) -> None:
        reconcile(path, snapshot)
        looks.append(snapshot)

    writer._reconcile = noted  # type: ignore[method-assign]
    eventually(lambda: bool(looks))


def rules(living: Living) -> list[tuple[str, str]]:
    """The taints of the extender's own rules: device and key."""
    return sorted(
        (each["spec"]["deviceSelector"]["device"], each["spec"]["taint"]["key"])
        for each in living.server.store.objects(RULES)
        if each["metadata"].get("labels") == LABEL
    )


def is_rule_write(request: Request) -> bool:
    return request.path.startswith(RULES) and request.method != "GET"


def is_rule_removal(request: Request) -> bool:
    return request.path.startswith(RULES) and request.method == "DELETE"


def test_sick_and_cordoned_gpus_are_tainted_until_they_are_well(dra: Living) -> None:
    """A rule of another stays."""
    dra.server.store.put(RULES, taint_rule("theirs", driver="gpu.nvidia.com", pool="c", device="gpu-0"))
    dra.report("c", gpu(0, "GPU-0", **SICK), gpu(1, "GPU-1"))
    eventually(lambda: rules(dra) == [("gpu-0", "gpu.scheduler-ext.io/unhealthy")])
    cordoned = {"gpu.scheduler-ext.io/cordoned": "GPU-1"}
    dra.report("c", gpu(0, "GPU-0", **SICK), gpu(1, "GPU-1"), annotations=cordoned)
    eventually(
        lambda: (
            rules(dra)
            == [("gpu-0", "gpu.scheduler-ext.io/unhealthy"), ("gpu-1", "gpu.scheduler-ext.io/cordoned")]
        )
    )
    dra.report("c", gpu(0, "GPU-0"), gpu(1, "GPU-1"))
    eventually(lambda: rules(dra) == [])
    writer = dra.loop(TaintWriter)
    eventually(lambda: dict(writer.writes) == {"created": 2, "deleted": 2})
    assert dra.server.store.get(RULES, "theirs").name == "theirs"


def test_rules_stay_while_the_agent_is_silent_and_go_with_the_devices(dra: Living) -> None:
    dra.report("c", gpu(0, "GPU-0", **SICK), gpu(1, "GPU-1"))
    eventually(lambda: len(rules(dra)) == 1)
    dra.report("c", gpu(0, "GPU-0", **SICK), gpu(1, "GPU-1"), ago_s=200)
    dra.server.store.delete("/apis/gpu.scheduler-ext.io/v1alpha1/gpunodes", "c")
    eventually(lambda: from_slices(dra))
    dra.follows("d")
    assert len(rules(dra)) == 1
    dra.server.store.delete(NODES, "c")
    eventually(lambda: rules(dra) == [])


@pytest.mark.parametrize("restart", ["no slices", "half a pool", "a pool without the device"])
def test_a_rule_outlives_a_restart_of_the_driver(dra: Living, restart: str) -> None:
    """The driver lists the sick GPU again before a new rule could be there."""
    dra.report("c", gpu(0, "GPU-0", **SICK), gpu(1, "GPU-1"))
    eventually(lambda: len(rules(dra)) == 1)
    both = [gpu_device(0), gpu_device(1)]
    if restart == "no slices":
        dra.server.store.delete(SLICES, "c-slice")
    else:
        half = restart == "half a pool"
        dra.server.store.put(
            SLICES, resource_slice("c", both if half else both[1:], generation=2, slices=1 + half)
        )
    eventually(lambda: len(devices(dra)) < 2)
    dra.follows("d")
    looked(dra)
    dra.server.store.put(SLICES, resource_slice("c", both, generation=3))
    eventually(lambda: len(devices(dra)) == 2)
    assert dra.server.log.count(is_rule_removal) == 0
    dra.report("c", gpu(0, "GPU-0"), gpu(1, "GPU-1"))
    eventually(lambda: rules(dra) == [])


def test_a_missing_right_is_named_and_tried_again(dra: Living) -> None:
    refusal = dra.server.faults.place(Refuse(403, "Forbidden", "no"), is_rule_write, times=None)
    dra.report("c", gpu(0, "GPU-0", **SICK), gpu(1, "GPU-1"))
    eventually(lambda: "DeviceTaintRules" in [problem.what for problem in dra.live.status().problems])
    assert dra.ready()
    refusal.lift()
    eventually(lambda: len(rules(dra)) == 1)
    eventually(lambda: dra.live.status().problems == [])


def test_nothing_is_written_again_once_it_is_there(dra: Living) -> None:
    dra.report("c", gpu(0, "GPU-0", **SICK), gpu(1, "GPU-1"))
    eventually(lambda: any(device.taints for device in devices(dra)))
    dra.server.log.clear()
    dra.follows("d")
    looked(dra)
    # One write may have been under way when its rule was seen.
    assert dra.server.log.count(is_rule_write) <= 1


def devices(living: Living) -> tuple[DraDevice, ...]:
    found = living.info("c").dra
    return found.devices if found is not None else ()


def from_slices(living: Living) -> bool:
    report = living.info("c").report
    return report is not None and report.from_slices
