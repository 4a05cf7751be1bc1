"""Readings from a file: of many nodes, and of a file that changes while it is read."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from scheduler_ext.agent.fake import FakeReadings
from scheduler_ext.core.errors import InventoryError
from scheduler_ext.wire.gpunode import plain
from tests.agent.crd_rules import refusals
from tests.kube_objects import Json, gpu, gpu_node, inventory, node, pod
from tests.pages import SAMPLE


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gpus.yaml"
    path.write_bytes(inventory(gpu_node("a", [gpu(0)]), node("a"), pod("p"), gpu_node("b", [gpu(0), gpu(1)])))
    return path


def test_a_summary_is_made_of_the_devices(file: Path) -> None:
    sick = gpu(1, model="T4", total=15360, health={"state": "Unhealthy"})
    busy = gpu(0, memory={"totalMiB": 81920, "usedMiB": 48640})
    lie: Json = {"summary": {"gpus": 9, "healthy": 9}}
    file.write_bytes(inventory(gpu_node("a", [busy, sick], **lie)))
    status = plain("a", FakeReadings(file).statuses()["a"])["status"]
    assert refusals(status) == []
    told = {"gpus": 2, "healthy": 1, "model": "A100-80GB, T4", "memoryUsedPercent": 50}
    assert status["summary"] == told


@pytest.mark.parametrize(
    ("devices", "model"),
    [
        pytest.param([gpu(0, model="A, B")], None, id="a name that would be two"),
        pytest.param([gpu(0, model="A"), gpu(1, model="A")], "A", id="a name that is there twice"),
    ],
)
def test_models_in_a_summary(file: Path, devices: list[Json], model: str | None) -> None:
    file.write_bytes(inventory(gpu_node("a", devices)))
    status = plain("a", FakeReadings(file).statuses()["a"])["status"]
    assert status["summary"].get("model") == model
    assert refusals(status) == []


def test_the_sample_is_taken_by_an_api_server() -> None:
    statuses = FakeReadings(SAMPLE).statuses()
    assert statuses
    assert {name: refusals(plain(name, status)["status"]) for name, status in statuses.items()} == {
        name: [] for name in statuses
    }


class TestChanges:
    def test_a_file_that_stays_is_read_once(self, file: Path) -> None:
        readings = FakeReadings(file)
        assert readings.statuses() is readings.statuses()

    def test_a_new_file_counts_at_once(self, file: Path) -> None:
        readings = FakeReadings(file)
        file.write_bytes(inventory(gpu_node("c", [gpu(0)])))
        assert list(readings.statuses()) == ["c"]

    def test_a_broken_one_keeps_the_last_value(self, file: Path, caplog: pytest.LogCaptureFixture) -> None:
        readings = FakeReadings(file)
        # Empty, as while it is written.
        file.write_text("")
        assert [list(readings.statuses()) for _ in range(3)] == [["a", "b"]] * 3
        (told,) = caplog.records
        assert str(file) in told.getMessage()
        file.write_text(yaml.safe_dump(gpu_node("d", [gpu(0)])))
        assert list(readings.statuses()) == ["d"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(None, "No such file or directory", id="no file"),
        pytest.param("{kind: Node, metadata: {name: n}}", "no GPUNode in it", id="no GPUNode"),
        pytest.param(
            '{kind: GPUNode, metadata: {name: "../../../api/v1/nodes/n"}, status: {devices: []}}',
            "GPUNode '../../../api/v1/nodes/n': metadata.name: is not a valid Node name",
            id="a name that would be another path",
        ),
        pytest.param(
            "{kind: GPUNode, metadata: {name: n}, status: {devices: "
            "[{uuid: '', index: 0, memory: {totalMiB: 1}}]}}",
            "GPUNode n: status.devices[0].uuid: is empty",
            id="a report that contradicts itself",
        ),
    ],
)
def test_a_file_that_is_none_from_the_start(file: Path, text: str | None, problem: str) -> None:
    file.write_text(text) if text is not None else file.unlink()
    with pytest.raises(InventoryError) as error:
        FakeReadings(file)
    assert str(error.value).startswith(f"{file}: {problem}")
