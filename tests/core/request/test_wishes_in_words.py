"""The wishes of a pod in words, for lists of waiting pods."""

from __future__ import annotations

import pytest

from scheduler_ext.core.request.wishes import (
    ANNOTATION_PREFIX,
    Wishes,
    parse_wishes,
    wishes_in_words,
)

ROWS = [
    pytest.param({"model": "H100, A100-80GB"}, ["model H100 or A100-80GB"], id="models are alternatives"),
    pytest.param({"min-memory": "40Gi"}, ["at least 40960 MiB"], id="memory is in MiB"),
    pytest.param({"min-compute-capability": "8"}, ["min-compute-capability 8.0"], id="a capability has dots"),
    pytest.param({"min-cuda": "12.4"}, ["min-cuda 12.4"], id="a CUDA version has dots"),
    pytest.param({"strategy": "spread"}, ["strategy spread"], id="a wish without words shows key and value"),
    pytest.param(
        {"strategy": "binpack", "model": "T4"}, ["model T4", "strategy binpack"], id="in the order of fields"
    ),
]


@pytest.mark.parametrize(("annotations", "words"), ROWS)
def test_wishes_in_words(annotations: dict[str, str], words: list[str]) -> None:
    wishes = parse_wishes({ANNOTATION_PREFIX + key: value for key, value in annotations.items()})
    assert wishes_in_words(Wishes(**wishes)) == words  # type: ignore[arg-type]
