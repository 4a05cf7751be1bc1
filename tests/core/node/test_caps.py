"""A report can lower the amounts of GPU Feature Discovery's labels, never raise them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.gpu.gpu import Device, Memory, Mig, Report
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.node.estimate import NO_CAPS, Caps, capped, caps_from_labels
from scheduler_ext.core.node.node_labels import MEMORY_LABEL
from tests.core.asked import t4
from tests.core.node.test_estimate import AMD, GFD, SINGLE
from tests.core.reported import device, sliced
from tests.gpu_strategies import reports


@pytest.mark.parametrize(
    ("labels", "caps"),
    [
        pytest.param(GFD, Caps(8, 81920, "A100-80GB", own_replicas=(("", 1),)), id="all three"),
        pytest.param(SINGLE, NO_CAPS, id="under MIG strategy single they count slices"),
        pytest.param(AMD, NO_CAPS, id="labels of another vendor"),
        pytest.param(
            {"nvidia.com/gpu.product": "NVIDIA-DGX-Display", "nvidia.com/gpu.memory": "4096"},
            NO_CAPS,
            id="those of a GPU for displays say nothing of the others",
        ),
        pytest.param({MEMORY_LABEL: "122880"}, Caps(stated_mib=122880), id="what an administrator states"),
    ],
)
def test_the_amounts_that_labels_cap(labels: dict[str, str], caps: Caps) -> None:
    assert caps_from_labels(labels) == caps


@pytest.mark.parametrize(
    ("reported", "label", "replicas"),
    [
        pytest.param(1000, 16384, 16384, id="the most of a report stands for more"),
        pytest.param(999, 16384, 999, id="less is what it says"),
        pytest.param(1000, 4, 1000, id="labels take nothing away"),
    ],
)
def test_replicas_that_a_report_cannot_state(reported: int, label: int, replicas: int) -> None:
    report = Report((device(0),), sharing_strategy="time-slicing", replicas=reported)
    labels = GFD | {"nvidia.com/gpu.replicas": str(label), "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    assert capped(report, caps_from_labels(labels)).replicas == replicas


@pytest.mark.parametrize(
    ("labels", "own"),
    [
        pytest.param({"gpu": "4", "mig-1g.10gb": "4"}, (), id="all alike"),
        pytest.param({"gpu": "4", "mig-1g.10gb.me": "2"}, (("1g.10gb+me", 2),), id="fewer of a profile"),
        pytest.param({"gpu": "1", "mig-1g.10gb": "4"}, (("", 1),), id="GPUs that are not shared"),
        pytest.param({"gpu": "0", "mig-1g.10gb": "4", "mig-2g": "3"}, (), id="what is no number or profile"),
        pytest.param({"gpu": "2", "mig-1g.10gb": "3"}, (), id="labels of another configuration"),
    ],
)
def test_replicas_of_each_resource(labels: dict[str, str], own: tuple[tuple[str, int], ...]) -> None:
    report = Report((device(0),), sharing_strategy="time-slicing", replicas=4)
    caps = caps_from_labels(GFD | {f"nvidia.com/{name}.replicas": count for name, count in labels.items()})
    assert capped(report, caps).own_replicas == own


A100 = device(0)
MI300X = device(1, vendor="amd", model=canonical_model("MI300X", vendor="amd"), memory=Memory(196608))


@pytest.mark.parametrize(
    ("devices", "caps", "left"),
    [
        pytest.param(
            [A100, t4(1)], Caps(1, 40960, "A100-80GB"), [40960, 15360], id="of those with that name"
        ),
        pytest.param([A100, MI300X], Caps(1, 40960), [40960, 196608], id="not of another vendor"),
        pytest.param([A100, t4(1)], Caps(1, 10000, "L4"), [10000], id="of all if none has it, to be safe"),
    ],
)
def test_remaining_parts_of_a_report(devices: list[Device], caps: Caps, left: list[int]) -> None:
    found = capped(Report(tuple(devices), driver_version="570"), caps)
    assert [one.memory.total_mib for one in found.devices] == left
    assert found.driver_version == "570"


@pytest.mark.parametrize(
    ("caps", "name", "capability"),
    [
        pytest.param(Caps(1, 15360, "T4"), "T4", (7, 5), id="a T4 that says it is an A100"),
        pytest.param(Caps(1, 15360, "NO-SUCH"), "NO-SUCH", (8, 0), id="an unknown product"),
        pytest.param(Caps(1, 81000, "A100-80GB"), "A100-80GB", (8, 0), id="a little less of the same"),
    ],
)
def test_a_gpu_with_too_much_memory_gets_the_model_of_the_labels(
    caps: Caps, name: str, capability: tuple[int, int]
) -> None:
    (found,) = capped(Report((device(0),)), caps).devices
    assert (found.model.name, found.compute_capability) == (name, capability)
    assert found.memory.total_mib <= (caps.memory_mib or 0)


@pytest.mark.parametrize(
    ("caps", "memory"),
    [
        pytest.param(Caps(1, 122880, "GB10"), Memory(122880, stated=True), id="by the label of GFD"),
        pytest.param(Caps(stated_mib=122880), Memory(122880, stated=True), id="by an administrator's label"),
        pytest.param(Caps(1), Memory(0), id="by none"),
    ],
)
def test_labels_state_the_memory_that_a_driver_does_not(caps: Caps, memory: Memory) -> None:
    spark = device(0, product="NVIDIA GB10", model=canonical_model("NVIDIA GB10"), memory=Memory(0))
    (found,) = capped(Report((spark,)), caps).devices
    assert (found.memory, found.memory.measured, found.model.name) == (memory, False, "GB10")


def test_a_gpu_without_mig_has_no_instances() -> None:
    report = Report((device(0, mig=sliced(("1g.10gb", 0))),))
    assert capped(report, Caps(1, 15360, "T4")).devices[0].mig == Mig()
    assert capped(report, Caps(1, 40960, "A100-40GB")).devices[0].mig == report.devices[0].mig


def test_the_parts_of_a_smaller_memory_fit_in_it() -> None:
    memory = Memory(81920, reserved_mib=50000, used_mib=60000, unaccounted_mib=70000)
    found = capped(Report((device(0, memory=memory),)), Caps(memory_mib=40960))
    assert found.devices[0].memory == Memory(40960, 40960, 40960, 40960)
    unknown = capped(Report((device(0),)), Caps(memory_mib=40960))
    assert unknown.devices[0].memory.unaccounted_mib is None


caps: st.SearchStrategy[Any] = st.builds(
    Caps,
    st.sampled_from((None, 1, 2, 4, 100)),
    st.sampled_from((None, 1000, 40960, 81920, 10**6)),
    st.sampled_from((None, "A100-80GB", "T4", "NOBODY")),
)


@given(reports(), caps)
def test_a_report_is_only_ever_lowered(report: Report, caps: Caps) -> None:
    report = replace(report, devices=report.devices[::-1])
    found = capped(report, caps)
    before = {one.uuid: one for one in report.devices}
    for one in found.devices:
        was = before[one.uuid]
        assert one.memory.total_mib <= was.memory.total_mib or not was.memory.measured
        capability = one.compute_capability
        kept = replace(was, memory=one.memory, model=one.model, compute_capability=capability, mig=one.mig)
        assert one == kept
        if one.memory == was.memory:
            assert one == was
    assert capped(found, caps) == found
    by_index = sorted(report.devices, key=lambda one: one.index)
    nvidia = [one for one in by_index if one.vendor == "nvidia"]
    if len({one.model.name for one in nvidia}) == 1:
        left = [one for one in found.devices if one.vendor == "nvidia"]
        assert {one.uuid for one in left} == {one.uuid for one in nvidia[: caps.count]}, "the first by index"
        assert all(one.memory.total_mib <= (caps.memory_mib or 2**31) for one in left)
