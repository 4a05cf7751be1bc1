"""An upgrade from an earlier commit and back by the commands of the page, while pods come and go.

UPGRADE_FROM names the commit to upgrade from; otherwise it is the one before the present commit. Its
containers run its own package.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.agent.nvml_mock.presets import h100
from tests.e2e.agents.gpu_host import NAMESPACE as AGENT_NAMESPACE
from tests.e2e.agents.gpu_host import PRESENT as GPU_LABELS
from tests.e2e.agents.gpu_host import GpuHost
from tests.e2e.agents.gpunode_api import PATH as GPU_NODES
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.cluster.whole import running_cluster
from tests.e2e.documented import Reader
from tests.e2e.history import Recorder, audited, wrongs
from tests.e2e.installation import NAMESPACE, Installation
from tests.e2e.shares.share_workload import ACCOUNT as EXTENDER
from tests.e2e.shares.share_workload import SHARING
from tests.e2e.upgrade.previous_release import PRESENT, Release, previous_release
from tests.e2e.upgrade.steady_load import SteadyLoad, complaints, restarted
from tests.e2e.workload import Workload
from tests.kube_objects import SHARE
from tests.pages import ROOT, blocks, section

pytestmark = pytest.mark.release

PAGE = "docs/tasks/upgrade.md"
SCHEDULER = f"system:serviceaccount:{NAMESPACE}:gpu-scheduler"
GPU = "nvidia.com/gpu"
GPUS = 4
# In the log of one container; what fails again and again exceeds it.
MOST_WARNINGS = 30
OLD, NEW = "the previous release", "the present release"


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return previous_release(tmp_path_factory.mktemp("previous"))


class SharedHost(GpuHost):
    """Hands out its GPUs as shares of memory."""

    def add_node(self, stem: str) -> None:
        self.workload.add_node(stem, {}, labels=GPU_LABELS | SHARING)


class Site:
    """A cluster where a reader has installed the previous release, and its pods."""

    def __init__(self, reader: Reader, pods: Path, previous: Release) -> None:
        self.reader = reader
        self.previous = previous
        self.installation = Installation(reader.cluster)
        self.workload = Workload(self.installation)
        self._pods = pods

    def follow(self, heading: str) -> None:
        """Run the commands of a section of the page."""
        self.reader.run(PAGE, heading)

    def check_out(self, release: Release) -> None:
        """Change the reader's checkout and commands to a release."""
        self.reader.check_out(release.root)
        self.reader.environment = dict(release.variables)

    def await_releases(self, extender: str, agent: str) -> None:
        """Wait until all processes run these releases."""
        eventually(lambda: self._releases("extender") == {extender}, f"extenders are of {extender}")
        eventually(lambda: self._releases("agent") == {agent}, f"agents are of {agent}")

    def _releases(self, name: str) -> set[str]:
        """The releases of all containers of this name."""
        kubelet = self.installation.kubelet
        pods = self.installation.pods() if name == "extender" else kubelet.running(AGENT_NAMESPACE)
        variable = f"PYTHONPATH={self.previous.root}"
        found = set()
        for pod in pods:
            child = pod.containers[name].child
            # It may end at any time.
            with contextlib.suppress(OSError):
                if child is not None and child.returncode is None:
                    variables = Path(f"/proc/{child.pid}/environ").read_text().split("\0")
                    found.add(OLD if variable in variables else NEW)
        return found

    def keep_settled(self, pods: Sequence[Json]) -> list[Json]:
        """Place pods that stay, and return them as they are."""
        names = self.workload.create_all(pods)
        self.workload.await_running(*names)
        return [self.workload.get(name) for name in names]

    @contextlib.contextmanager
    def recorded_load(self, pod: Callable[[], Json], most: int) -> Iterator[tuple[Recorder, SteadyLoad]]:
        """A steady load and its history, which ends when every pod was bound."""
        with Recorder(self.workload.api, self.workload.namespace) as recorder:
            with SteadyLoad(self.workload, pod, most) as load:
                yield recorder, load

            def all_bound() -> bool:
                bound = (pod for _, pod in recorder.events if "nodeName" in pod["spec"])
                return set(load.created) <= {pod["metadata"]["name"] for pod in bound}

            eventually(all_bound, "every pod is bound", 60.0)

    def check(
        self, load: SteadyLoad, recorder: Recorder, room: Json, binder: str, settled: Sequence[Json]
    ) -> None:
        """What must hold for the whole time."""
        writes = audited(self.installation.plane.audit_log)
        assert wrongs(recorder.events, writes, self.workload.namespace, room, binder) == []
        for before in settled:
            after = self.workload.get(before["metadata"]["name"])
            assert (after["metadata"]["uid"], after["spec"], after["status"]["phase"]) == (
                *(before["metadata"]["uid"], before["spec"], "Running"),
            )
        assert load.states == {"Fresh"}, "no report is ever too old"
        assert restarted(self.installation, NAMESPACE, AGENT_NAMESPACE) == []
        errors, warnings = complaints(self._pods)
        assert errors == []
        assert [log for log, number in warnings.items() if number > MOST_WARNINGS] == []


@contextlib.contextmanager
def previous_site(directory: Path, previous: Release, overlay: str = "") -> Iterator[Site]:
    for name in ("cluster", "checkout"):
        (directory / name).mkdir()
    with running_cluster(
        directory / "cluster", audit=True, releases={"0.1.0": previous.variables}
    ) as cluster:
        reader = Reader(cluster, directory / "checkout", previous.root)
        reader.environment = dict(previous.variables)
        reader.run("README.md", "## Install on a cluster")
        if overlay:
            reader.run_block(f"sed -i 's|manifests/base|manifests/{overlay}|' my-cluster/kustomization.yaml")
            reader.run_block("kubectl apply --server-side -k my-cluster")
        else:
            reader.run("docs/tasks/install.md", "## Another configuration")
        site = Site(reader, directory / "cluster" / "pods", previous)
        site.installation.await_rollout()
        yield site


def test_whole_gpus(tmp_path: Path, previous: Release) -> None:
    with previous_site(tmp_path, previous) as site:
        workload = site.workload
        hosts = [GpuHost(workload, f"gpus-{n}", *(h100(GPUS * n + i) for i in range(GPUS))) for n in range(2)]
        for host in hosts:
            host.await_report()
        sick = hosts[0]
        sick.machine.events.append((79, sick.machine.gpus[0].uuid))
        sick.machine.write()

        def is_sick() -> bool:
            return "XID 79" in sick.devices()[0]["health"].get("reason", "")

        eventually(is_sick, "a GPU is sick")
        settled = site.keep_settled([workload.pod({GPU: "1"}) for _ in range(2)])
        with site.recorded_load(lambda: workload.pod({GPU: "1"}), 4) as (recorder, load):
            load.await_more(3)
            site.await_releases(OLD, OLD)
            site.check_out(PRESENT)
            state, tag = blocks(section(page(), "## Before an upgrade"), "sh")
            site.reader.run_block(state)
            site.reader.run_block(tag)
            everything_but_agents, agents = blocks(section(page(), "## Upgrading"), "sh")
            site.reader.run_block(everything_but_agents)
            site.await_releases(NEW, OLD)
            load.await_more(5)
            with next_report(sick):
                site.reader.run_block(agents)
                site.await_releases(NEW, NEW)
            assert is_sick(), "it needs a reboot, whichever agent reports"
            load.await_more(5)
            site.follow("## After an upgrade")

            site.follow("## Rolling back the extender alone")
            site.await_releases(OLD, NEW)
            load.await_more(5)
            site.check_out(previous)
            with next_report(sick):
                site.follow("## Rolling back everything")
                site.await_releases(OLD, OLD)
            assert is_sick(), "it needs a reboot, whichever agent reports"
            load.await_more(5)
        site.check_out(PRESENT)
        with pytest.raises(AssertionError, match=r'conflicts? with "kubectl"'):
            site.reader.run_block(tag)
        site.reader.run_block("kubectl apply --server-side --force-conflicts --dry-run=server -k my-cluster")
        (status,) = [
            entry
            for entry in workload.api.get(f"{GPU_NODES}/{sick.name}")["metadata"]["managedFields"]
            if entry.get("subresource") == "status"
        ]
        assert status["manager"] == "scheduler-ext-agent"
        site.check(load, recorder, {f"{host.name}/{GPU}": GPUS for host in hosts}, SCHEDULER, settled)


@contextlib.contextmanager
def next_report(host: GpuHost) -> Iterator[None]:
    """At the end, the host's new agent has written its first report, which it does at once."""
    before = host.report()["status"]["sequence"]
    yield
    eventually(lambda: host.report()["status"]["sequence"] > before, "the new agent reports", 60.0)


def test_shares(tmp_path: Path, previous: Release) -> None:
    with previous_site(tmp_path, previous, "overlays/shares") as site:
        workload = site.workload
        hosts = [SharedHost(workload, f"shared-{n}", h100(2 * n), h100(2 * n + 1)) for n in range(2)]
        reported = [device for host in hosts for device in host.await_report()["status"]["devices"]]
        room = {device["uuid"]: device["memory"]["totalMiB"] for device in reported}
        quarter = str(min(room.values()) // 4)
        settled = site.keep_settled([workload.pod({SHARE: quarter}) for _ in range(2)])
        with site.recorded_load(lambda: workload.pod({SHARE: quarter}), 6) as (recorder, load):
            load.await_more(3)
            site.check_out(PRESENT)
            _, tag = blocks(section(page(), "## Before an upgrade"), "sh")
            site.reader.run_block(tag)
            for block in blocks(section(page(), "## Upgrading"), "sh"):
                site.reader.run_block(block)
                load.await_more(5)
            site.await_releases(NEW, NEW)
            load.await_more(5)
            site.check_out(previous)
            site.follow("## Rolling back everything")
            site.await_releases(OLD, OLD)
            load.await_more(5)
        site.check(load, recorder, room, EXTENDER, settled)


def page() -> str:
    return (ROOT / PAGE).read_text()
