"""The page of a demo that serves on."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_demo import serving
from tests.server.process.server_process import eventually


def shows_its_pods(shown: str) -> bool:
    """Whether the page has the pods that fit, those that wait, and the past before them."""
    page = re.search(
        r"page at (http://\S+) shows 10 of these pods on their GPUs, the 5 others waiting", shown
    )
    assert page is not None
    found: dict[str, Any] = {}

    def complete() -> bool:
        with urllib.request.urlopen(f"{page[1]}page/events", timeout=10) as reply:
            data = next(line for line in reply if line.startswith(b"data: "))
        found.update(json.loads(data[6:]))
        return bool(found.get("pending", {}).get("total") == 5)

    eventually(complete)
    assert len(found["samples"]) > 300
    assert found["samples"][-2][0] - found["samples"][0][0] > 3600
    nearest = {line["name"]: line["nearest"] for line in found["pending"]["lines"]}
    assert "unit-forgotten" in nearest
    # The busy A100s, and no node with other GPUs.
    assert nearest["three-a100"].startswith("a100-01 has 0 of 3 nvidia.com/gpu free; would fit if pod ")
    assert "train-8" in {each["name"] for each in found["decisions"]}
    return True


@pytest.mark.process
def test_it_shows_the_pods_of_the_demo_and_no_warning_about_them(tmp_path: Path) -> None:
    with serving(tmp_path) as shown:
        assert shows_its_pods(shown)
