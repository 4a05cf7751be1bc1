"""Input files of the commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.commands import CLUSTER
from tests.kube_objects import inventory


@pytest.fixture(autouse=True)
def no_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may have a kubeconfig; no test uses it."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    path = tmp_path / "inventory.json"
    path.write_bytes(inventory(*CLUSTER))
    return path


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, Any], Path]:
    """Write a value as YAML, or a text unchanged, and return the path."""

    def write(name: str, value: Any) -> Path:
        path = tmp_path / name
        text = value if isinstance(value, str | bytes) else yaml.safe_dump(value)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write
