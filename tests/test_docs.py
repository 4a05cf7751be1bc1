"""The documentation: its generated parts, and the links of pages that are not in the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.generate import PARTS, main
from tests.pages import FENCE, ROOT, is_of_a_missing_feature

PAGE = """Filter takes <!-- generated: time -->3 ms<!-- end --> here.

<!-- generated: reasons -->

<!-- end -->

By hand.
"""


def test_a_part_that_differs_from_the_code_is_found_and_renewed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "README.md"
    page.write_text(PAGE)
    parts = {"reasons": PARTS["reasons"], "time": lambda page, before: "4.2 ms"}
    assert main([], tmp_path, parts, {}) == 0
    good = page.read_text()
    assert good.startswith("Filter takes <!-- generated: time -->4.2 ms<!-- end --> here.\n")
    assert "| `node(s) had unhealthy GPUs` | The request would fit" in good
    assert good.endswith("<!-- end -->\n\nBy hand.\n")
    assert main(["--check"], tmp_path, parts, {}) == 0
    page.write_text(good.replace("unhealthy", "sick"))
    capsys.readouterr()
    assert main(["--check"], tmp_path, parts, {}) == 1
    assert "-| `node(s) had sick GPUs`" in capsys.readouterr().out
    assert "sick" in page.read_text(), "nothing is written"


def test_a_file_that_differs_from_its_parts_is_found_and_renewed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "default.yaml"
    file.write_text("a: 1\n")
    files = {"default.yaml": lambda: "a: 2\n"}
    assert main(["--check"], tmp_path, {}, files) == 1
    assert "-a: 1\n+a: 2\n" in capsys.readouterr().out
    assert main([], tmp_path, {}, files) == 0
    assert file.read_text() == "a: 2\n"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        pytest.param("time", "no page has these parts: reasons", id="a part without a place"),
        pytest.param("reasons", "README.md: no part is named 'time'", id="a place without a part"),
    ],
)
def test_parts_and_places_belong_together(tmp_path: Path, written: str, message: str) -> None:
    text = PAGE if written == "reasons" else PAGE.partition("\n\n")[0]
    (tmp_path / "README.md").write_text(text)
    parts = {"reasons": PARTS["reasons"]} | ({"time": lambda page, before: ""} if written == "time" else {})
    with pytest.raises(SystemExit, match=re.escape(message)):
        main(["--check"], tmp_path, parts, {})


def links(path: Path) -> list[str]:
    prose = FENCE.sub("", path.read_text())
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", prose) if "://" not in target]


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_of_pages_that_are_not_in_the_site_resolve(name: str) -> None:
    """`make docs` follows all others."""
    for link in links(ROOT / name):
        target, _, anchor = link.partition("#")
        file = ROOT / (target or name)
        if is_of_a_missing_feature(file):
            continue
        assert file.exists(), link
        assert not anchor or anchor in anchors(file), link
