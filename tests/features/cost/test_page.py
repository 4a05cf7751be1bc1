"""The pages about costs and right-sizing: their commands run as they stand, and print what the pages show."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import FENCE, ROOT

pytestmark = [pytest.mark.process, pytest.mark.release]


def steps(page: str) -> list[tuple[str, str]]:
    """Each shell block with the output that the page shows after it, if it does."""
    found: list[tuple[str, str]] = []
    for _, named, body in FENCE.findall((ROOT / "docs" / "features" / page).read_text()):
        if named == "sh":
            found.append((body, ""))
        elif not named:
            found[-1] = found[-1][0], body
    return found


@pytest.mark.parametrize("page", ["cost/cost.md", "idle/right-sizing.md"])
def test_the_commands_of_a_page_print_what_it_shows(page: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    for command, shown in steps(page):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        printed = done.stdout.splitlines()
        assert [line for line in shown.splitlines() if line not in printed] == []
        assert printed
