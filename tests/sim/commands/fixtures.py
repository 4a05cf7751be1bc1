"""Traces in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_ext.sim.generator import generate_nodes, generate_pods
from scheduler_ext.sim.openb import write_nodes, write_pods


@pytest.fixture
def traces(tmp_path: Path) -> tuple[Path, Path]:
    """The CSVs of nodes and of pods."""
    nodes = generate_nodes(8, seed=1)
    write_nodes(tmp_path / "nodes.csv", nodes)
    write_pods(tmp_path / "pods.csv", generate_pods(nodes, seed=1))
    return tmp_path / "nodes.csv", tmp_path / "pods.csv"
