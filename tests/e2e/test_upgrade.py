"""An upgrade from an earlier commit and back by the commands of the page, while pods come and go.

UPGRADE_FROM names the commit to upgrade from; otherwise it is the one before the present commit. Its
containers run its own package.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
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
from tests.e2e.upgrade.steady_load import SteadyLoad, complaints
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

    def __init__(self, reader: Reader, previous: Release) -> None:
        self.reader = reader
        self.previous = previous
        self.installation = Installation(reader.cluster)
        self.installation.await_rollout()
        self.workload = Workload(self.installation)

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
    def recorded_load(self, limits: Json) -> Iterator[tuple[Recorder, SteadyLoad]]:
        """A steady load and its history, which ends when every pod was bound."""
        with Recorder(self.workload.api, self.workload.namespace) as recorder:
            with SteadyLoad(self.workload, lambda: self.workload.pod(limits), 4) as load:
                yield recorder, load

            def all_bound() -> bool:
                bound = (pod for _, pod in recorder.events if "nodeName" in pod["spec"])
                return set(load.created) <= {pod["metadata"]["name"] for pod in bound}

            eventually(all_bound, "every pod is bound", 60.0)

    def restarted(self) -> list[str]:
        """The extenders and agents that were started more than once. On a busy machine, a kube-scheduler may
        end because it cannot renew its Lease."""
        return [
            pod["metadata"]["name"]
            for namespace in (NAMESPACE, AGENT_NAMESPACE)
            for pod in self.installation.api.items(f"/api/v1/namespaces/{namespace}/pods")
            for each in pod["status"].get("containerStatuses", ())
            if each["name"] != "kube-scheduler" and each["restartCount"]
        ]


@contextlib.contextmanager
def previous_site(directory: Path, previous: Release, shared: bool) -> Iterator[Site]:
    for name in ("cluster", "checkout"):
        (directory / name).mkdir()
    with running_cluster(
        directory / "cluster", audit=True, releases={"0.1.0": previous.variables}
    ) as cluster:
        reader = Reader(cluster, directory / "checkout", previous.root)
        reader.environment = dict(previous.variables)
        reader.run("README.md", "## Install on a cluster")
        if shared:
            overlay = "s|manifests/base|manifests/overlays/shares|"
            reader.run_block(f"sed -i '{overlay}' my-cluster/kustomization.yaml")
            reader.run_block("kubectl apply --server-side -k my-cluster")
        else:
            reader.run("docs/tasks/install.md", "## Another configuration")
        yield Site(reader, previous)


@contextlib.contextmanager
def next_report(host: GpuHost) -> Iterator[None]:
    """At the end, the host's new agent has written its first report, which it does at once. What it says of
    a GPU that needs a reboot does not depend on the agent."""
    before = host.report()["status"]["sequence"]
    yield
    eventually(lambda: host.report()["status"]["sequence"] > before, "the new agent reports", 60.0)
    assert is_sick(host)


def is_sick(host: GpuHost) -> bool:
    return "XID 79" in host.devices()[0]["health"].get("reason", "")


@pytest.mark.parametrize("shared", [False, True], ids=["whole GPUs", "shares"])
def test_an_upgrade_and_back(tmp_path: Path, previous: Release, shared: bool) -> None:
    with previous_site(tmp_path, previous, shared) as site:
        workload, reader = site.workload, site.reader
        kind = SharedHost if shared else GpuHost
        hosts = [kind(workload, f"gpus-{n}", *(h100(GPUS * n + i) for i in range(GPUS))) for n in range(2)]
        devices = [device for host in hosts for device in host.await_report()["status"]["devices"]]
        memory = {device["uuid"]: device["memory"]["totalMiB"] for device in devices}
        room = memory if shared else {f"{host.name}/{GPU}": GPUS for host in hosts}
        limits = {SHARE: str(min(memory.values()) // 4)} if shared else {GPU: "1"}
        sick = hosts[0]
        sick.machine.events.append((79, sick.machine.gpus[0].uuid))
        sick.machine.write()
        eventually(lambda: is_sick(sick), "a GPU is sick")
        settled = site.keep_settled([workload.pod(limits) for _ in range(2)])
        with site.recorded_load(limits) as (recorder, load):
            load.await_more(3)
            site.await_releases(OLD, OLD)
            site.check_out(PRESENT)
            state, tag = blocks(section(page(), "## Before an upgrade"), "sh")
            reader.run_block(state)
            reader.run_block(tag)
            everything_but_agents, agents = blocks(section(page(), "## Upgrading"), "sh")
            reader.run_block(everything_but_agents)
            site.await_releases(NEW, OLD)
            load.await_more(5)
            with next_report(sick):
                reader.run_block(agents)
                site.await_releases(NEW, NEW)
            load.await_more(5)
            reader.run(PAGE, "## After an upgrade")

            reader.run(PAGE, "## Rolling back the extender alone")
            site.await_releases(OLD, NEW)
            load.await_more(5)
            site.check_out(previous)
            with next_report(sick):
                reader.run(PAGE, "## Rolling back everything")
                site.await_releases(OLD, OLD)
            load.await_more(5)
        site.check_out(PRESENT)
        with pytest.raises(AssertionError, match=r'conflicts? with "kubectl"'):
            reader.run_block(tag)
        reader.run_block("kubectl apply --server-side --force-conflicts --dry-run=server -k my-cluster")
        fields = workload.api.get(f"{GPU_NODES}/{sick.name}")["metadata"]["managedFields"]
        writers = [each["manager"] for each in fields if each.get("subresource") == "status"]
        assert writers == ["scheduler-ext-agent"]
        writes = audited(site.installation.plane.audit_log)
        binder = EXTENDER if shared else SCHEDULER
        assert wrongs(recorder.events, writes, workload.namespace, room, binder) == []
        for before in settled:
            after = workload.get(before["metadata"]["name"])
            assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])
            assert after["status"]["phase"] == "Running"
        assert site.restarted() == []
        errors, warnings = complaints(tmp_path / "cluster" / "pods")
        assert errors == []
        assert [log for log, number in warnings.items() if number > MOST_WARNINGS] == []


def page() -> str:
    return (ROOT / PAGE).read_text()
