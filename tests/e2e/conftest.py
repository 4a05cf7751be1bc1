"""One standing cluster for most end-to-end tests of a worker, and for each test what it adds to it.

Two runs side by side share nothing but the built binaries: ports are free ones, directories temporary ones.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.e2e.cluster.api import Api
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.features import SINCE_1_36
from tests.e2e.cluster.whole import PLAIN_NODES
from tests.e2e.installation import Installation, running_installation
from tests.e2e.shares.share_cluster import SHARES, ShareCluster, running_share_cluster
from tests.e2e.shares.share_workload import ShareWorkload, running_share_installation
from tests.e2e.workload import Workload

_T = TypeVar("_T")
HERE = Path(__file__).parent
_NOT_BEFORE_1_36 = (
    *(HERE / name for name in ("dra", "gangs", "shares")),
    HERE / "autoscaler_config" / "test_model_affinity.py",
    HERE / "test_preemption_lag.py",
)
# The fixtures that are a standing cluster.
STANDING = {"installation", "shares", "share_installation"}
_OF_SHARES = {
    "share_installation": re.compile(r"\b(?:share_installation|share_workload): "),
    "shares": re.compile(r"\bshares: ShareCluster"),
}


class Standing:
    """Keeps one cluster from file to file, until a file needs another kind: one control plane at a time."""

    def __init__(self) -> None:
        self._kind = ""
        self._running: Any = None
        self._stack = contextlib.ExitStack()

    def take(self, kind: str, cluster: contextlib.AbstractContextManager[_T]) -> _T:
        """The standing cluster of this kind; one of another kind stops first, and `cluster` starts."""
        if kind != self._kind:
            self.stop()
            self._running = self._stack.enter_context(cluster)
            self._kind = kind
        running: _T = self._running
        return running

    def stop(self) -> None:
        """Stop what is running, for a file that starts clusters of its own."""
        self._kind = ""
        self._stack.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here is `e2e`, which `make test` leaves out and `make e2e` selects.

    Files that share a standing cluster follow each other. Files with clusters of their own, which take long,
    are before the many short ones.
    """
    order = ("share_installation", "shares", "", "installation")
    used: dict[Path, set[str]] = {}
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.e2e)
            if any(item.path.is_relative_to(path) for path in _NOT_BEFORE_1_36):
                item.add_marker(SINCE_1_36)
            used.setdefault(item.path, set()).update(standing_of(item))
    items.sort(key=lambda item: order.index(min(used.get(item.path) or {""})))


def standing_of(item: pytest.Item) -> set[str]:
    """The standing clusters that a test uses."""
    return STANDING.intersection(item.fixturenames) if isinstance(item, pytest.Function) else set()


class _FilesOfOneWorker(LoadFileScheduling):  # type: ignore[misc]
    """A file's tests run on one worker, and so do all files with shares that use the same standing
    cluster, so that it starts once.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return standing_for_shares(self.config.rootpath / file) or file


def standing_for_shares(path: Path) -> str:
    """The standing cluster with shares that a file uses; empty if it uses none."""
    text = path.read_text(encoding="utf-8")
    return next((kind for kind, uses in _OF_SHARES.items() if uses.search(text)), "")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return _FilesOfOneWorker(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def standing() -> Iterator[Standing]:
    standing = Standing()
    yield standing
    standing.stop()


@pytest.fixture(scope="module", autouse=True)
def one_control_plane(request: pytest.FixtureRequest, standing: Standing) -> None:
    """No cluster stands idle beside those that a file starts itself."""
    used = {name for item in request.session.items if item.path == request.path for name in standing_of(item)}
    assert len(used) <= 1, f"{request.path.name} uses {' and '.join(sorted(used))}: split it"
    if not used:
        standing.stop()


@contextlib.contextmanager
def running_base(directory: Path) -> Iterator[Installation]:
    """A cluster with manifests/base, applied and ready."""
    with running_installation(directory) as installation:
        yield installation
        assert left_behind(installation.api) == []


def left_behind(api: Api) -> list[str]:
    """Objects that tests should have removed."""
    paths = ("/api/v1/nodes", "/api/v1/pods", "/apis/scheduling.k8s.io/v1/priorityclasses")
    names = [each["metadata"]["name"] for path in paths for each in api.items(path)]
    ours = (*PLAIN_NODES, "gpu-scheduler-", "system-")
    return [name for name in names if not name.startswith(ours)]


@pytest.fixture(scope="module")
def installation(standing: Standing, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """manifests/base, applied and ready."""
    return standing.take("base", running_base(tmp_path_factory.mktemp("cluster")))


@pytest.fixture(scope="module")
def control_plane(installation: Installation) -> ControlPlane:
    return installation.plane


@pytest.fixture(scope="module")
def shares(standing: Standing, tmp_path_factory: pytest.TempPathFactory) -> ShareCluster:
    """A cluster with manifests/overlays/shares, but without its workloads."""
    return standing.take("shares", running_share_cluster(tmp_path_factory.mktemp("shares"), SHARES))


@pytest.fixture(scope="module")
def share_installation(standing: Standing, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """A cluster with manifests/overlays/shares, applied and ready."""
    directory = tmp_path_factory.mktemp("share-installation")
    return standing.take("share_installation", running_share_installation(directory))


@pytest.fixture
def share_workload(share_installation: Installation) -> Iterator[ShareWorkload]:
    """As `workload`, where shares are bound."""
    with ShareWorkload(share_installation) as workload:
        yield workload


@pytest.fixture
def workload(installation: Installation) -> Iterator[Workload]:
    """Nodes and pods of the present test; leftovers are removed at its end."""
    with Workload(installation) as workload:
        yield workload
