"""What a GPU is worth: the shipped table, and the values that replace it."""

from __future__ import annotations

import pytest

from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.gpu.value_table import VALUES, value_of


@pytest.mark.parametrize(
    ("product", "configured", "value"),
    [
        pytest.param("NVIDIA H100 80GB HBM3", {}, 6.9, id="a product has the value of its model"),
        pytest.param("NVIDIA-H100", {}, 6.9, id="a family without a size has that of its cheapest member"),
        pytest.param("NVIDIA-A100", {}, 2.7, id="so do GPUs of several sizes"),
        pytest.param("H100-80GB-MIG-1G.10GB", {}, 6.9, id="a MIG instance has that of its whole GPU"),
        pytest.param("MI300X-CPX-NPS4", {}, 0.75, id="an eighth of an AMD GPU has an eighth of its value"),
        pytest.param("MI300X-DPX-NPS1", {"MI300X": 4.0}, 2.0, id="also of a configured one"),
        pytest.param("NVIDIA GeForce RTX 3090", {}, 0.96, id="others are valued by their memory"),
        pytest.param("Something New", {}, 1.5, id="unknown ones are in the middle"),
        pytest.param("Tesla T4", {"T4": 3.0}, 3.0, id="a configured value replaces the table's"),
        pytest.param("NVIDIA H100 80GB HBM3", {"H100": 2.5}, 2.5, id="also that of a family"),
        pytest.param(
            "NVIDIA H100 80GB HBM3", {"H100": 2.5, "H100-80GB": 2.0}, 2.0, id="a model is before its family"
        ),
    ],
)
def test_value_of(product: str, configured: dict[str, float], value: float) -> None:
    assert value_of(canonical_model(product), configured) == pytest.approx(value)


def test_every_model_of_the_table_is_a_known_one() -> None:
    assert [name for name in VALUES if canonical_model(name).name != name] == []
