"""The kustomizations and the values of the Helm chart that the pages in docs/tasks/platforms show."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

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


def kustomizations() -> Iterator[tuple[str, Json]]:
    """(page, kustomization) of every one that a page shows or writes."""
    for page in sorted(PAGES.glob("*.md")):
        yield from ((page.stem, each) for each in shown(page.read_text()) if "resources" in each)
