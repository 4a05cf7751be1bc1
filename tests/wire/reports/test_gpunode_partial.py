"""Parts that a report may leave out: places of instances come from the table, cordons from operators."""

from __future__ import annotations

import json

import pytest

from scheduler_ext.core.errors import ImpossibleReportError
from scheduler_ext.core.gpu.gpu import MigInstance, Report
from scheduler_ext.wire.gpunode import GpuNode
from scheduler_ext.wire.report import read_report
from scheduler_ext.wire.watching import Decoder
from tests.kube_objects import Json, gpu, gpu_node
from tests.wire.reports.gpunode_status import report_of


def instances(*found: Json, model: str = "A100-80GB") -> tuple[MigInstance, ...]:
    numbered = [{"uuid": f"MIG-{i}"} | instance for i, instance in enumerate(found)]
    status = {"devices": [gpu(0, model=model, mig={"enabled": True, "instances": numbered})]}
    return report_of(status).devices[0].mig.instances


class TestInstancesWithoutAPlace:
    """MIG placements may be read by root only."""

    def test_the_profile_says_the_size(self) -> None:
        found = instances({"profile": "3g.40gb"}, {"profile": "1g.10gb"})
        assert found == (MigInstance("MIG-0", "3g.40gb", None, 4), MigInstance("MIG-1", "1g.10gb", None, 1))
        assert [instance.mask for instance in found] == [0, 0]

    def test_instances_of_an_unknown_model_count_as_one_each(self) -> None:
        assert [
            one.size for one in instances({"profile": "1g.5gb"}, {"profile": "3g.20gb"}, model="Foo")
        ] == [
            1,
            1,
        ]

    def test_instances_without_a_place_overlap_nothing(self) -> None:
        found = instances({"profile": "3g.40gb", "start": 0, "size": 4}, {"profile": "3g.40gb"})
        assert [instance.start for instance in found] == [0, None]

    @pytest.mark.parametrize(
        ("instance", "problem"),
        [
            pytest.param(
                {"profile": "1g.10gb", "start": 0}, "a start without a size; give both or neither", id="half"
            ),
            pytest.param({"profile": "7g.80gb", "start": 9, "size": 8}, "leave the grid of 16", id="too far"),
        ],
    )
    def test_half_a_place_is_refused(self, instance: Json, problem: str) -> None:
        with pytest.raises(ImpossibleReportError, match=rf"devices\[0\]\.mig\.instances\[0\].*{problem}"):
            instances(instance)


@pytest.mark.parametrize("instance", [{"start": 8, "size": 1}, {"start": 4, "size": 8}, {"size": 9}])
def test_a_place_off_the_grid_of_its_model_is_not_judged_by_it(instance: Json) -> None:
    """A report that has no grid may be of a GPU that the package's table is not about."""
    found = {"enabled": True, "instances": [{"uuid": "MIG-a", "profile": "1g.10gb"} | instance]}
    (device,) = report_of({"devices": [gpu(0, mig=found)]}).devices
    assert (len(device.mig.instances), device.mig.geometry) == (1, None)


def test_instances_of_a_gpu_that_does_not_say_are_mig() -> None:
    found = {"instances": [{"uuid": "MIG-a", "profile": "1g.10gb"}]}
    assert report_of({"devices": [gpu(0, mig=found)]}).devices[0].mig.enabled


def cordoned(annotations: Json | None) -> list[str]:
    found = gpu_node("n", [gpu(i) for i in range(3)])
    found["metadata"]["annotations"] = annotations
    (read,) = Decoder(GpuNode).page(json.dumps({"items": [found]}).encode()).items
    report = read_report(read)
    assert isinstance(report, Report)
    return [device.uuid for device in report.devices if device.cordoned]


@pytest.mark.parametrize(
    ("annotation", "uuids"),
    [
        pytest.param("GPU-1", ["GPU-1"], id="one"),
        pytest.param(" GPU-0 ,\n GPU-1,", ["GPU-0", "GPU-1"], id="spaces around them"),
        pytest.param("GPU-9, nonsense", [], id="none of this node"),
    ],
)
def test_an_operator_cordons_gpus_by_an_annotation(annotation: str | None, uuids: list[str]) -> None:
    assert cordoned({"gpu.scheduler-ext.io/cordoned": annotation, "other": "GPU-0,GPU-1"}) == uuids


def test_without_annotations_none_is_cordoned() -> None:
    assert cordoned(None) == []
