"""The CSV files of traces: their content, and the names in errors."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.custom_policy import find_policy
from scheduler_ext.sim.generator import (
    FAMILIES,
    GENERATED,
    generate_nodes,
    generate_pods,
    generate_traces,
)
from scheduler_ext.sim.mig.mig_inputs import read_geometry
from scheduler_ext.sim.openb import read_nodes, read_pods, read_traces, write_pods, write_traces
from scheduler_ext.sim.philly import read_philly
from scheduler_ext.sim.trace_workload import PodKind, TracePod
from scheduler_ext.sim.world import TraceNode
from scheduler_ext.wire import files
from tests.sim.small import refusal

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,8000,1000,0,\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n"


def written(tmp_path: Path, text: str, name: str = "trace.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_nodes(tmp_path: Path) -> None:
    assert [*read_nodes(written(tmp_path, NODES))] == [
        TraceNode("n0", 64000, 262144, 2, "P100"),
        TraceNode("n1", 8000, 1000, 0, ""),
    ]


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        pytest.param("p,8000,30517,0,0,,BE", PodKind(8000, 30517), id="a pod without GPUs"),
        pytest.param("p,100,2,8,1000,,LS", PodKind(100, 2, 8, 1000), id="whole GPUs"),
        pytest.param("p,1,2,1,1000,T4|P100,", PodKind(1, 2, 1, 1000, ("P100", "T4")), id="models, sorted"),
        pytest.param("p,1,2,0,0,P100,", PodKind(1, 2), id="a model is no matter without GPUs"),
    ],
)
def test_pods(tmp_path: Path, row: str, kind: PodKind) -> None:
    (pod,) = read_pods(written(tmp_path, PODS + row + "\n"))
    assert pod.kind == kind


def test_pods_with_the_first_five_columns_only(tmp_path: Path) -> None:
    text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,2,1,500\n"
    (pod,) = read_pods(written(tmp_path, text))
    assert (pod.kind, pod.qos) == (PodKind(1000, 2, 1, 500), "")


@pytest.mark.parametrize(
    ("row", "told"),
    [
        pytest.param("p,1,1,١,1,,", "line 3, num_gpu: '١' is no whole number", id="another script's digit"),
        pytest.param("p,1,-1,0,0,,", "line 3, memory_mib: -1 is not within 0", id="a negative number"),
        pytest.param("p,1,1,1,1001,,", "line 3, gpu_milli: 1001 is not within 0 to 1000", id="beyond a GPU"),
        pytest.param("p,1,1,2,500,,", "line 3, gpu_milli: 500 of each of 2 GPUs", id="parts of several GPUs"),
        pytest.param(
            "p,1,1,0,0,,,LS,x",
            "line 3, column 8: 'LS' has no name in the first line",
            id="a row that goes on",
        ),
    ],
)
def test_pods_that_cannot_be(tmp_path: Path, row: str, told: str) -> None:
    path = written(tmp_path, PODS + "good,1,1,1,5,,\n" + row + "\n")
    assert refusal(lambda: read_pods(path)).startswith(f"{path}, {told}")


@pytest.mark.parametrize("value", ["0", "-1", "free", "1e3", "inf", "2000000"])
def test_a_value_that_cannot_be(tmp_path: Path, value: str) -> None:
    path = written(tmp_path, f"sn,cpu_milli,memory_mib,gpu,model,value\nn,8000,8000,1,T4,{value}\n")
    assert refusal(lambda: read_nodes(path)) == (
        f"{path}, line 2, value: {value!r} is no number above 0 and at most 1000000; "
        "write one such as 2.5, or leave the cell empty"
    )


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(f"p,{'9' * 500},1,0,0,,", id="a long number"),
        pytest.param(f"p,1,1,0,0,,,{'x' * 500}", id="a long cell without a column"),
    ],
)
def test_long_values_are_shown_by_their_beginning(tmp_path: Path, row: str) -> None:
    path = written(tmp_path, PODS + row + "\n")
    told = refusal(lambda: read_pods(path)).removeprefix(str(path))
    assert max(told.count(letter) for letter in "x9") == 80


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            NODES.replace("memory_mib", "gpu"), "no column memory_mib", id="a column twice for another"
        ),
        pytest.param("sn,cpu_milli,memory_mib,gpu,model\n", "has no rows", id="no rows"),
        pytest.param(NODES.replace("n1", "n0"), "line 3, sn: 'n0' names another node", id="a name twice"),
        pytest.param(NODES.replace(",P100", ","), "line 2, model: a node with GPUs needs", id="no model"),
        pytest.param(NODES.replace("2,P100", "0,"), "no node has a GPU", id="no GPUs"),
    ],
)
def test_nodes_that_cannot_be(tmp_path: Path, text: str, told: str) -> None:
    path = written(tmp_path, text)
    message = refusal(lambda: read_nodes(path))
    assert message.startswith(str(path))
    assert told in message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match=r"missing\.csv: cannot be read: No such file"):
        read_nodes(tmp_path / "missing.csv")
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"sn,cpu_milli,memory_mib,gpu,model\n\xff\xfe\n")
    with pytest.raises(SimulationError, match="is no CSV in UTF-8"):
        read_nodes(binary)


def test_a_byte_order_mark_is_no_part_of_a_column(tmp_path: Path) -> None:
    path = tmp_path / "bom.csv"
    path.write_text(NODES, encoding="utf-8-sig")
    assert len(read_nodes(path)) == 2


class TestGenerator:
    @pytest.mark.parametrize("family", FAMILIES)
    def test_each_family_differs_by_seed_alone(self, family: str) -> None:
        nodes, traces = generate_traces(10, seed=3, family=family)
        assert generate_traces(10, seed=3, family=family) == (nodes, traces)
        assert generate_traces(10, seed=4, family=family)[1] != traces
        asked = sum(pod.kind.demand_milli for pod in traces[GENERATED])
        assert 1.0 <= asked / sum(node.gpus for node in nodes) / 1000 < 1.2

    def test_traces_are_written_and_read_back(self, tmp_path: Path) -> None:
        nodes, traces = generate_traces(5, seed=3)
        write_traces(tmp_path / "a" / "b", nodes, traces)
        written_to = tmp_path / "a" / "b"
        assert read_traces(written_to / "nodes.csv", [written_to / "generated.csv"]) == (nodes, traces)
        with pytest.raises(SimulationError, match=r"nodes\.csv: cannot be written"):
            write_traces(written_to / "nodes.csv", nodes, traces)

    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_small_clusters_get_small_pods(self, count: int) -> None:
        nodes = generate_nodes(count, seed=0)
        pods = generate_pods(nodes, seed=0)
        assert max(pod.kind.gpus for pod in pods) <= max(node.gpus for node in nodes)


def test_a_file_without_gpu_pods_is_named(tmp_path: Path) -> None:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text(NODES, encoding="utf-8")
    write_pods(pods, [TracePod("p", PodKind(1000, 1000))])
    with pytest.raises(SimulationError, match=r"/pods\.csv: no pod requests a GPU"):
        read_traces(nodes, [pods])


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda path: [*read_nodes(path)], id="the nodes of a trace"),
        pytest.param(lambda path: read_geometry(str(path)), id="a geometry"),
        pytest.param(lambda path: find_policy(str(path)), id="a policy"),
        pytest.param(lambda path: read_philly(path.parent / "machines", [path]), id="the jobs of Philly"),
    ],
)
@pytest.mark.parametrize("kind", ["a device without an end", "a pipe that nothing writes to"])
def test_a_file_of_a_simulation_is_read_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], object], kind: str
) -> None:
    """Like all files: never beyond a limit, and never for ever."""
    monkeypatch.setattr(files, "OPEN_S", 0.1)
    path = tmp_path / "input"
    if kind.startswith("a pipe"):
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    (tmp_path / "machines").write_text("machineId,number of GPUs,single GPU mem\nm0,2,24GB\n")
    expected = "is it a pipe" if kind.startswith("a pipe") else "MiB, the most that is read"
    assert expected in refusal(lambda: read(path))
    if kind.startswith("a pipe"):
        # Let the thread go that still waits for it.
        os.close(os.open(path, os.O_RDWR))
