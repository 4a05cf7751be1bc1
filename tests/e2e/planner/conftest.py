"""A cluster of its own with manifests/overlays/planner."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.cluster.whole import running_cluster
from tests.e2e.installation import Installation
from tests.e2e.planner.planner_lab import PlannerLab


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running_cluster(tmp_path_factory.mktemp("planner")) as cluster:
        installation = Installation(cluster)
        installation.install("overlays/planner")
        yield installation


@pytest.fixture
def lab(planner: Installation) -> Iterator[PlannerLab]:
    planner.await_ready()
    lab = PlannerLab(planner)
    yield lab
    lab.resume()
    lab.close()
