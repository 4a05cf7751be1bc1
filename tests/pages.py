"""The pages of the documentation, taken apart for the tests that hold them to the code."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from scheduler_ext.feature import installed

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
SAMPLE = ROOT / "config" / "sample-inventory.yaml"
SAMPLE_PODS = ROOT / "scheduler_ext" / "demo" / "pods.yaml"
PAGE_EVENTS = ROOT / "docs" / "features" / "page" / "page-events.md"
PENDING = ROOT / "docs" / "tasks" / "why-is-my-pod-pending.md"
# The home of the site is the README, with a list of the pages before it.
HOME = ROOT / "docs" / "index.md"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path != HOME),
]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def page(name: str) -> str:
    """A page of the reference."""
    return (REFERENCE / f"{name}.md").read_text()


def is_of_a_missing_feature(path: Path) -> bool:
    """Whether a page belongs to a feature that is not installed."""
    *folders, name = path.relative_to(ROOT).parts[:3]
    return folders == ["docs", "features"] and name not in {feature.name for feature in installed()}


def rows(text: str) -> list[list[str]]:
    """The cells of all table rows but headers and their rules, without backticks around a cell."""
    table = [line.strip().strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row] for row in table]
    rules = [n for n, row in enumerate(cells) if set("".join(row)) <= set("-: ")]
    return [row for n, row in enumerate(cells) if n not in rules and n + 1 not in rules]


def section(text: str, heading: str) -> str:
    """A section up to the next heading of any level."""
    return re.split(r"^#+ ", text.split(f"\n{heading}\n", 1)[1], flags=re.MULTILINE)[0]


def blocks(text: str, language: str) -> list[str]:
    """Fenced blocks of a language, without the indentation of the list they stand in."""
    return [
        re.sub(rf"^{indent}", "", body, flags=re.MULTILINE)
        for indent, named, body in FENCE.findall(text)
        if named == language
    ]


def assert_printed(path: Path, folder: Path) -> None:
    """Run the shell blocks of a page as they stand, in a folder with the shipped configuration: each succeeds
    and prints the lines that the page shows after it."""
    shutil.copytree(ROOT / "config", folder / "config")
    (folder / ".venv").symlink_to(sys.prefix)
    steps: list[tuple[str, str]] = []
    for _, named, body in FENCE.findall(path.read_text()):
        if named == "sh":
            steps.append((body, ""))
        elif not named:
            steps[-1] = steps[-1][0], body
    for command, shown in steps:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        printed = done.stdout.splitlines()
        assert [line for line in shown.splitlines() if line not in printed] == []
        assert printed
