"""One cluster and one installation for most end-to-end tests of a run.

Two runs side by side share nothing but the built binaries: ports are free ones, directories temporary ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.e2e.cluster.api import Api
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.kubelet import Kubelet
from tests.e2e.cluster.whole import PLAIN_NODES, Cluster, running_cluster
from tests.e2e.installation import Installation
from tests.e2e.shares.share_cluster import SHARES, ShareCluster, running_share_cluster
from tests.e2e.shares.share_workload import ShareWorkload, running_share_installation, share_workload_on
from tests.e2e.workload import Workload

HERE = Path(__file__).parent
_WITH_SHARES = re.compile(r"\b(?:shares: ShareCluster|share_installation: |share_workload: )")
# The longest first: a file that started last would leave the other workers idle.
LONG = [
    HERE / name
    for name in (
        "test_upgrade.py",
        "dra/test_side_by_side.py",
        "test_preemption.py",
        "agents/test_agents.py",
        "autoscaler/test_karpenter.py",
        "test_outages.py",
        "test_documentation.py",
        "dra/test_dra_faults.py",
        "chart/test_helm_page.py",
        "shares/test_shares_page.py",
        "shares/test_shares_race.py",
        "shares/test_shares_kills.py",
        "test_faults.py",
        "test_identities.py",
        "test_soft_preferences.py",
        "idle/test_idle_page.py",
        "test_documented_tasks.py",
        "test_full_nodes.py",
        "test_unschedulable.py",
    )
]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here is `e2e`, which `make test` leaves out and `make e2e` selects. Long files are first."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.e2e)
    items.sort(key=lambda item: LONG.index(item.path) if item.path in LONG else len(LONG))


class _FilesOfOneWorker(LoadFileScheduling):  # type: ignore[misc]
    """A file's tests run on one worker, and so do all files that use the common installations of shares: a
    cluster lasts to the end of its worker, and takes processor time without any test.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        path = self.config.rootpath / file
        return "shares" if _WITH_SHARES.search(path.read_text(encoding="utf-8")) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return _FilesOfOneWorker(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster
        assert left_behind(cluster.plane.api) == []


def left_behind(api: Api) -> list[str]:
    """Objects that tests should have removed."""
    paths = ("/api/v1/nodes", "/api/v1/pods", "/apis/scheduling.k8s.io/v1/priorityclasses")
    names = [each["metadata"]["name"] for path in paths for each in api.items(path)]
    ours = (*PLAIN_NODES, "gpu-scheduler-", "system-")
    return [name for name in names if not name.startswith(ours)]


@pytest.fixture(scope="session")
def control_plane(cluster: Cluster) -> ControlPlane:
    return cluster.plane


@pytest.fixture(scope="session")
def kubelet(cluster: Cluster) -> Kubelet:
    return cluster.kubelet


@pytest.fixture(scope="session")
def installation(cluster: Cluster) -> Installation:
    """manifests/base, applied and ready."""
    installation = Installation(cluster)
    installation.install("base")
    return installation


@pytest.fixture(scope="session")
def shares(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShareCluster]:
    """A cluster of its own with manifests/overlays/shares, but without its workloads."""
    with running_share_cluster(tmp_path_factory.mktemp("shares"), SHARES) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def share_installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A cluster of its own with manifests/overlays/shares, applied and ready."""
    with running_share_installation(tmp_path_factory.mktemp("share-installation")) as installation:
        yield installation


@pytest.fixture
def share_workload(share_installation: Installation) -> Iterator[ShareWorkload]:
    """As `workload`, where shares are bound."""
    with share_workload_on(share_installation) as workload:
        yield workload


@pytest.fixture
def workload(installation: Installation) -> Iterator[Workload]:
    """Nodes and pods of the present test; leftovers are removed at its end."""
    # A test that breaks something and fails before it is repaired should be one failure, not eight.
    installation.await_ready()
    workload = Workload(installation)
    yield workload
    workload.close()
