"""The pods of docs/tasks/why-is-my-pod-pending.md: each is explained as the page shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from scheduler_ext.cli import main
from tests.pages import PENDING, SAMPLE, blocks

# The sections with a pod, by their headings.
CASES = [
    (text.splitlines()[0], text)
    for text in re.split(r"^#{2,3} ", PENDING.read_text(), flags=re.MULTILINE)
    if "kind: Pod" in text
]
WAITING = [case for case in CASES if case[0][0].isdigit()]


def explained(section: str, folder: Path) -> tuple[int, list[str]]:
    """Exit code and lines of `explain` for the section's pod, on the sample and the section's own nodes."""
    manifests = {yaml.safe_load(block)["kind"]: block for block in blocks(section, "yaml")}
    cluster = folder / "inventory.yaml"
    cluster.write_text("\n---\n".join(filter(None, (SAMPLE.read_text(), manifests.get("Node")))))
    arguments = ["explain", "-f", "-", "--inventory", str(cluster)]
    result = CliRunner().invoke(main, arguments, input=manifests["Pod"])
    return result.exit_code, result.output.splitlines()


@pytest.mark.parametrize("section", [pytest.param(text, id=title) for title, text in CASES])
def test_the_page_shows_the_printed_output(section: str, tmp_path: Path) -> None:
    code, printed = explained(section, tmp_path)
    (shown,) = blocks(section, "")
    assert shown.splitlines() == printed[: printed.index("")]
    assert code == (3 if section in dict(WAITING).values() else 0)


def test_ten_pods_wait_in_different_ways(tmp_path: Path) -> None:
    answers = [explained(text, tmp_path)[1] for _, text in WAITING]
    assert len(answers) == 10
    assert len({tuple(lines[1:]) for lines in answers}) == 10
