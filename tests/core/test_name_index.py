"""Names to rows: the many-names path answers as the plain dict does."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core import name_index
from scheduler_ext.core.name_index import NameIndex

names = st.lists(st.text(max_size=4), unique=True, max_size=200)


@given(names, st.lists(st.text(max_size=4), max_size=50))
def test_many_names_are_found_as_single_ones_are(known: list[str], others: list[str]) -> None:
    index = NameIndex(known)
    asked = [*known, *others, *others, *known]
    random.Random(1).shuffle(asked)
    expected = [known.index(name) if name in known else -1 for name in asked]
    assert index.rows(asked).tolist() == expected
    padding = ["nobody"] * 600
    assert index.rows([*asked, *padding]).tolist()[: len(asked)] == expected


@pytest.mark.parametrize("nodes", [0, 1, 499, 500, 5000])
def test_every_size_of_cluster(nodes: int) -> None:
    known = [f"node-{i}" for i in range(nodes)]
    asked = [*reversed(known), "unknown", "", *known]
    assert NameIndex(known).rows(asked).tolist() == [*reversed(range(nodes)), -1, -1, *range(nodes)]


def test_nodes_whose_hashes_coincide_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_index, "hash", lambda name: 7, raising=False)
    known = [f"node-{i}" for i in range(20)]
    assert NameIndex(known).rows(known * 50).tolist() == [*range(20)] * 50
