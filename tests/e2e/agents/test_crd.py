"""The CRD of GPUNode on an API server: stored fields, write access, and printed columns."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator

import pytest
import yaml

from tests.agent.gpunode_reports import summary_of
from tests.e2e.agents.gpunode_api import PATH, GpuNodes
from tests.e2e.cluster.api import ApiError, Json
from tests.e2e.cluster.control_plane import ControlPlane
from tests.kube_objects import gpu, holder
from tests.pages import SAMPLE, blocks, page
from tests.wire.reports.gpunode_status import FULL

SAMPLES = {
    item["metadata"]["name"]: item["status"]
    for item in yaml.safe_load_all(SAMPLE.read_text())
    if item["kind"] == "GPUNode"
}


@pytest.fixture
def nodes(control_plane: ControlPlane) -> Iterator[GpuNodes]:
    nodes = GpuNodes(control_plane.api)
    yield nodes
    nodes.close()


def test_every_field_is_kept(nodes: GpuNodes) -> None:
    status = FULL | {"summary": summary_of(FULL["devices"])}
    nodes.create("full")
    nodes.report("full", status)
    assert nodes.get("full")["status"] == status


def test_an_unknown_field_is_dropped_from_a_patch(nodes: GpuNodes) -> None:
    nodes.create("newer")
    nodes.api.patch(f"{PATH}/newer/status", {"status": {"devices": [gpu(0, fromTheFuture=1)]}})
    assert nodes.get("newer")["status"] == {"devices": [gpu(0)]}


def test_the_largest_node_of_all_is_accepted(nodes: GpuNodes) -> None:
    """The API server also limits the cost of rules on one object, besides their estimated cost."""
    profiles = [
        {"name": f"{n}g.{n}gb+me.all", "size": 1, "starts": list(range(16)), "maxInstances": 7}
        for n in range(1, 33)
    ]

    def mig(device: int) -> Json:
        instances = [
            {
                "uuid": f"MIG-{16 * device + n:092}",
                "profile": profiles[-1 - n]["name"],
                "start": n,
                "size": 1,
                "holder": holder("p", memoryMiB=5),
            }
            for n in range(16)
        ]
        return {"enabled": True, "gridSize": 16, "profiles": profiles, "instances": instances}

    holders = [holder("p", memoryMiB=5)] * 100
    devices = [gpu(n, f"GPU-{n:092}", mig=mig(n), holders=holders) for n in range(64)]
    nodes.create("largest")
    assert nodes.refusal("largest", {"devices": devices, "summary": summary_of(devices)}) == ""


def test_a_new_object_has_no_status_and_no_spec(nodes: GpuNodes) -> None:
    made = nodes.create("new", status={"devices": [gpu(0)]}, spec={"model": "H100"})
    assert set(made) == {"apiVersion", "kind", "metadata"}


def test_two_writers_share_a_device_by_its_uuid(nodes: GpuNodes) -> None:
    sick = {"state": "Unhealthy", "reason": "cable"}
    there, back = {"peer": "GPU-0", "kind": "NV12"}, {"peer": "GPU-2", "kind": "SYS"}
    nodes.create("shared")
    nodes.report("shared", {"devices": [gpu(0), gpu(1, links=[there])]})
    nodes.report(
        "shared", {"devices": [{"uuid": "GPU-1", "health": sick, "links": [back]}]}, manager="doctor"
    )
    nodes.report("shared", {"devices": [gpu(1, total=40960, links=[there]), gpu(0)]})
    kept = {device["uuid"]: device for device in nodes.get("shared")["status"]["devices"]}
    assert kept == {"GPU-0": gpu(0), "GPU-1": gpu(1, total=40960, health=sick, links=[there, back])}


IN_ONE_PIECE: dict[str, Json] = {
    ".sharing": {"sharing": {"replicas": 2}},
    ".summary": {"summary": {"gpus": 1, "healthy": 1}},
    '.devices[uuid="GPU-0"].memory': {"devices": [{"uuid": "GPU-0", "memory": {"totalMiB": 1}}]},
    '.devices[uuid="GPU-0"].health': {"devices": [{"uuid": "GPU-0", "health": {"reason": "cable"}}]},
    '.devices[uuid="GPU-0"].holders': {"devices": [{"uuid": "GPU-0", "holders": [{"uid": "u9"}]}]},
    '.devices[uuid="GPU-0"].mig.instances[uuid="MIG-b"].holder': {
        "devices": [{"uuid": "GPU-0", "mig": {"instances": [{"uuid": "MIG-b", "holder": {"uid": "u9"}}]}}]
    },
}


@pytest.mark.parametrize("field", IN_ONE_PIECE)
def test_a_part_of_an_atomic_value_conflicts_with_the_whole(nodes: GpuNodes, field: str) -> None:
    nodes.create("shared")
    nodes.report("shared", FULL | {"summary": summary_of(FULL["devices"])})
    with pytest.raises(ApiError) as refusal:
        nodes.report("shared", IN_ONE_PIECE[field], manager="other")
    assert 'Apply failed with 1 conflict: conflict with "agent"' in str(refusal.value)
    assert str(refusal.value).endswith(f" .status{field}")


@pytest.mark.parametrize(
    ("before", "after", "boot"),
    [
        pytest.param({"bootID": "a", "sequence": 5}, {"bootID": "b", "sequence": 1}, "", id="after a reboot"),
        pytest.param({"sequence": 5}, {"bootID": "a", "sequence": 1}, "", id="where none was named"),
        pytest.param({"bootID": "a", "sequence": 5}, {"bootID": "a", "sequence": 4}, "a", id="within a boot"),
        pytest.param({"sequence": 5}, {"sequence": 4}, "(none)", id="without boots"),
    ],
)
def test_the_sequence_goes_back(nodes: GpuNodes, before: Json, after: Json, boot: str) -> None:
    nodes.create("counted")
    nodes.report("counted", {"devices": [], **before})
    refusal = nodes.refusal("counted", {"devices": [], **after})
    said = f"status.sequence: Invalid value: sequence went back from 5 to 4 within bootID {boot}"
    assert (said in refusal) if boot else refusal == ""


def columns(table: str) -> list[list[str]]:
    """The cells of kubectl's output, cut at the headings; without ages, which depend on the test."""
    heading, *lines = table.rstrip("\n").split("\n")
    starts = [0, *(n for n in range(1, len(heading)) if heading[n - 1] == " " != heading[n])]
    rows = [
        [line[start:end].strip() for start, end in itertools.pairwise([*starts, None])]
        for line in (heading, *lines)
    ]
    age = rows[0].index("AGE")
    return [row[:age] + row[age + 1 :] for row in rows]


def test_kubectl_shows_what_the_reference_says(nodes: GpuNodes, control_plane: ControlPlane) -> None:
    reported = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=12, seconds=20)
    names = ["a100-01", "h100-01", "mig-a100-01", "t4-sliced-01"]
    for name in names:
        nodes.create(name)
        status = SAMPLES[name] | {"reportedAt": reported.strftime("%Y-%m-%dT%H:%M:%SZ")}
        nodes.report(name, status | {"summary": summary_of(status["devices"])})
    (told,) = [
        "\n".join(rest)
        for command, *rest in (block.split("\n") for block in blocks(page("gpunode"), ""))
        if command.split() == ["kubectl", "get", "gpunodes", "-o", "wide"]
    ]
    assert columns(control_plane.kubectl("get", "gpun", *names, "-o", "wide")) == columns(told)
