"""The page about costs: its commands run as they stand, and print what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import ROOT, assert_printed


@pytest.mark.process
@pytest.mark.release
def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    assert_printed(ROOT / "docs" / "features" / "cost" / "cost.md", tmp_path)
