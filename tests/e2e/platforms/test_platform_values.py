"""The values on the pages in docs/tasks/platforms give the objects of the kustomization before them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.chart.helm import assert_equal
from tests.e2e.platforms.kustomizations import PAGES, shown
from tests.manifests.objects import Json

# Simulated nodes, which the chart does not have.
ONLY_BY_KUSTOMIZE = "../manifests/overlays/kwok-demo"


def pairs() -> list[tuple[str, Json, Json]]:
    """(page, kustomization, values)."""
    found = []
    for page in sorted(PAGES.glob("*.md")):
        before: Json | None = None
        for each in shown(page.read_text()):
            if "resources" in each:
                assert before is None, f"{page.name} has no values for {before}"
                before = each if each["resources"] != [ONLY_BY_KUSTOMIZE] else None
            else:
                assert before is not None, f"{page.name} has no kustomization for {each}"
                found.append((page.stem, before, each))
                before = None
        assert before is None, f"{page.name} has no values for {before}"
    return found


@pytest.mark.parametrize(
    ("kustomization", "values"),
    [
        pytest.param(kustomization, values, id=f"{page}-{number}")
        for number, (page, kustomization, values) in enumerate(pairs())
    ],
)
def test_the_values_of_a_page_give_the_objects_of_its_kustomization(
    tmp_path: Path, kustomization: Json, values: Json
) -> None:
    below = {
        key: [path.removeprefix("../manifests/") for path in kustomization.get(key, ())]
        for key in ("resources", "components")
    }
    assert_equal(tmp_path, values, kustomization | below)
