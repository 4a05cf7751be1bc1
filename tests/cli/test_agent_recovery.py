"""`scheduler-ext agent` as a process: events that make a GPU healthy again, and others that do not."""

from __future__ import annotations

import datetime
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler_ext.agent.gpu_health import REPAIRED_ANNOTATION
from tests.agent.crd_rules import refusals
from tests.agent.nvml_mock.library import build_library
from tests.cli.agents import Agent, World, healthy
from tests.cluster.api.api_paths import GPU_NODES
from tests.kube_objects import Json
from tests.server.process.server_process import eventually

DBE = "XID 48: double-bit ECC error; needs a GPU reset"
UUID = "GPU-h100-1"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("nvml"))


class Node(World):
    """The second GPU of its node breaks; a silence of 0.2 s is enough where silence is a cure."""

    def run(self, recover_after: str = "200ms") -> Agent:
        self.server.log.clear()
        return self.agent("--node-name", "n", *self.local, "--recover-after", recover_after)

    def breaks(self, xid: int) -> None:
        self.driver.events += [(xid, UUID)]
        self.driver.write()

    def end(self, agent: Agent) -> None:
        agent.signal(signal.SIGTERM)
        assert agent.wait() == 0

    def look(self, times: int = 5) -> None:
        """Wait for so many looks of the agent."""
        first = self.looks()
        eventually(lambda: self.looks() >= first + times)

    def looks(self) -> int:
        return self.driver.calls()["nvmlDeviceGetCount_v2"]

    def health(self, matches: Callable[[Json], bool] = lambda status: True) -> Json:
        status = self.reported(matches)
        assert refusals(status) == []
        found: Json = status["devices"][1]["health"]
        return found

    def annotate(self, value: str) -> None:
        stored = self.server.store.collection(GPU_NODES).get(None, "n")
        assert stored is not None
        changed = stored.object()
        changed["metadata"]["annotations"] = {REPAIRED_ANNOTATION: value}
        self.server.store.put(GPU_NODES, changed)

    def change_something(self) -> None:
        """So that the agent writes without waiting for a minute."""
        self.driver.gpus[0].mig = not self.driver.gpus[0].mig
        self.driver.write()


@pytest.fixture
def node(tmp_path: Path, library: Path) -> Iterator[Node]:
    built = Node(tmp_path, library)
    yield built
    built.stop()


def now(ahead_s: float = 0) -> str:
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=ahead_s)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def sick(reason: str) -> Callable[[Json], bool]:
    return lambda status: bool(status["devices"][1]["health"].get("reason") == reason)


@pytest.mark.parametrize("xid", [48, 79, 95, 119])
@pytest.mark.process
def test_neither_silence_nor_a_new_agent_heals_a_broken_gpu(node: Node, xid: int) -> None:
    agent = node.run()
    node.health()
    node.breaks(xid)
    before = node.health(healthy(1))
    node.look(10)
    node.end(agent)
    agent = node.run()
    node.look(10)
    node.change_something()
    after = node.health(lambda status: not status["devices"][0]["mig"]["enabled"])
    assert after == before
    assert after["reason"].startswith(f"XID {xid}: ")


@pytest.mark.process
def test_silence_heals_the_curable_errors(node: Node) -> None:
    # Longer than a busy machine may delay the report.
    node.run("5s")
    node.health()
    node.breaks(63)
    told = node.reported(healthy(1))
    assert told["devices"][1]["health"]["recovery"] == "Quiet"
    after = node.health(lambda status: healthy(2)(status) and status["sequence"] > told["sequence"])
    assert after == {"state": "Healthy"}


@pytest.mark.parametrize(
    "sign",
    [
        pytest.param({"action": 1}, id="a driver that asks for it"),
        pytest.param({"action": None, "remapped": "0,1,1,0"}, id="an older driver, rows that wait"),
        pytest.param({"action": None, "faults": {"*": 16}}, id="an older driver, no answer before a reset"),
    ],
)
@pytest.mark.parametrize("away", [False, True], ids=["", "while no agent runs"])
@pytest.mark.process
def test_a_reset_heals(node: Node, sign: Json, away: bool) -> None:
    gpu = node.driver.gpus[1]
    well = {"action": sign["action"], "remapped": "0,0,0,0", "faults": {}} | {"action": sign["action"] and 0}
    agent = node.run()
    node.health()
    for name, value in sign.items():
        setattr(gpu, name, value)
    node.breaks(48)
    assert node.health(sick(DBE))["resetPending"]
    if away:
        node.end(agent)
    node.server.log.clear()
    for name, value in well.items():
        setattr(gpu, name, value)
    node.driver.write()
    if away:
        node.run()
    assert node.health(healthy(2)) == {"state": "Healthy"}


@pytest.mark.process
def test_a_driver_that_is_reloaded_heals_nothing(node: Node) -> None:
    agent = node.run()
    node.health()
    node.breaks(48)
    node.health(sick(DBE))
    node.end(agent)
    node.driver.faults = {"*": 9}
    node.driver.write()
    # This agent runs without NVML.
    agent = node.run()
    assert node.health(healthy(0))["reason"] == DBE
    node.end(agent)
    node.driver.faults = {}
    node.driver.write()
    node.run()
    assert node.health(healthy(1))["reason"] == DBE


@pytest.mark.process
def test_an_operator_says_that_it_is_repaired(node: Node) -> None:
    agent = node.run()
    node.health()
    node.breaks(79)
    node.health(healthy(1))
    node.annotate(f"GPU-of-another@{now()}, {UUID}@nonsense")
    node.change_something()
    agent.wait_for_line("is not UUID@TIME, and changes nothing")
    node.look()
    node.server.log.clear()
    node.annotate(f"{UUID}@{now(1)}")
    node.change_something()
    assert node.health(healthy(2)) == {"state": "Healthy"}
    agent.wait_for_line("an operator repaired it, forgetting: XID 79")


@pytest.mark.process
def test_a_repair_while_no_agent_runs(node: Node) -> None:
    agent = node.run()
    node.health()
    node.breaks(79)
    node.health(healthy(1))
    node.end(agent)
    node.annotate(f"{UUID}@{now(1)}")
    agent = node.run()
    assert node.health(healthy(2)) == {"state": "Healthy"}
