"""Names to rows: the path for many names equals the plain dict."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.snapshot import name_index
from scheduler_ext.core.snapshot.name_index import NameIndex

# Enough for tables instead of dicts; random names are none of them.
CROWD = [f"other-{i}" for i in range(600)]

names = st.lists(st.text(max_size=4), unique=True, max_size=200)


@given(names, st.lists(st.text(max_size=4), max_size=50))
def test_many_names_are_found_as_single_ones_are(known: list[str], others: list[str]) -> None:
    index = NameIndex([*known, *CROWD])
    asked = [*known, *others, *others, *known]
    random.Random(1).shuffle(asked)
    expected = [known.index(name) if name in known else -1 for name in asked]
    assert index.rows(asked).tolist() == expected
    assert index.rows([*asked, *CROWD]).tolist()[: len(asked)] == expected


@pytest.mark.parametrize("nodes", [0, 1, 99, 100, 5000])
def test_every_size_of_cluster(nodes: int) -> None:
    known = [f"node-{i}" for i in range(nodes)]
    asked = [*reversed(known), "unknown", "", *known]
    assert NameIndex(known).rows(asked).tolist() == [*reversed(range(nodes)), -1, -1, *range(nodes)]


def all_the_same(name: str) -> int:
    return 7


def two_the_same(name: str) -> int:
    return hash("node-0" if name == "node-1" else name)


def two_differing_in_one_bit(name: str) -> int:
    return hash("node-0") ^ 1 << 62 if name == "node-1" else hash(name)


@pytest.mark.parametrize("alike", [all_the_same, two_the_same, two_differing_in_one_bit])
def test_nodes_whose_hashes_coincide_are_distinguished(
    monkeypatch: pytest.MonkeyPatch, alike: Callable[[str], int]
) -> None:
    monkeypatch.setattr(name_index, "hash", alike, raising=False)
    known = [f"node-{i}" for i in range(600)]
    assert NameIndex(known).rows(known * 2).tolist() == [*range(600)] * 2
