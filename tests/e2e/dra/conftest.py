"""A cluster with overlays/dra for each module here, and nodes and pods for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.dra.dra_workload import DraWorkload, running_dra_installation
from tests.e2e.installation import Installation


@pytest.fixture(scope="module")
def dra(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with running_dra_installation(tmp_path_factory.mktemp("dra")) as installation:
        yield installation


@pytest.fixture
def workload(dra: Installation) -> Iterator[DraWorkload]:
    with DraWorkload(dra) as workload:
        yield workload
