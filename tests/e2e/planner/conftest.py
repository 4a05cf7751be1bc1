"""A cluster of its own with manifests/overlays/planner."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.installation import Installation, running_installation
from tests.e2e.planner.planner_lab import PlannerLab


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running_installation(tmp_path_factory.mktemp("planner"), "overlays/planner") as installation:
        yield installation


@pytest.fixture
def lab(planner: Installation) -> Iterator[PlannerLab]:
    with PlannerLab(planner) as lab:
        yield lab
