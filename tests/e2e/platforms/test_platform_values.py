"""The values on the pages in docs/tasks/platforms give the objects of the kustomization before them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.chart.helm import assert_equal
from tests.manifests.objects import Json
from tests.pages import ROOT

PAGES = ROOT / "docs" / "tasks" / "platforms"
# What an `sh` block writes or appends, and what a `yaml` block shows.
_SHOWN = re.compile(
    r"^cat > my-cluster/kustomization.yaml <<END\n(?P<written>.*?)^END$"
    r"|^echo '(?P<appended>.*?)' >> my-cluster/kustomization.yaml$"
    r"|^```yaml\n(?P<block>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


def shown(page: str) -> Iterator[Json]:
    """Every kustomization and all values of a page in their order; only kustomizations have `resources`."""
    written = ""
    for found in _SHOWN.finditer(page):
        if found["written"]:
            written = found["written"].replace("${VERSION:?}", "v1.36.3")
        text = found["block"] or f"{written}\n{found['appended'] or ''}"
        yield yaml.safe_load(text)


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
