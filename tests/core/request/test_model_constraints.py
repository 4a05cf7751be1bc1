"""A wish for a model matches the model's name or family, never part of a longer name."""

from __future__ import annotations

import pytest

from scheduler_ext.core.gpu.models import canonical_model, normalise_model
from tests.core.asked import meets


@pytest.mark.parametrize(
    ("wish", "product", "matches"),
    [
        pytest.param("A100", "NVIDIA-A100-SXM4-80GB", True, id="a family takes every size"),
        pytest.param("A100", "A100", True, id="a family takes an unknown size"),
        pytest.param("A100-80GB", "A100", False, id="a size is not met by an unknown size"),
        pytest.param("A100-80GB", "NVIDIA-A100-SXM4-40GB", False, id="a size is not met by another"),
        pytest.param("a100_80gb", "NVIDIA A100 80GB PCIe", True, id="case and separators do not matter"),
        pytest.param(
            "NVIDIA-A100-SXM4-80GB", "NVIDIA A100 80GB PCIe", True, id="a product string is canonicalised"
        ),
        pytest.param("H20", "NVIDIA H20-3e", True, id="a family with a usual size still takes every size"),
        pytest.param("H20-96GB", "NVIDIA H20-3e", False, id="the usual size can be asked for"),
        pytest.param("nvidia-tesla-a100", "NVIDIA-A100-SXM4-80GB", False, id="GKE's name means 40 GB"),
        pytest.param("RTX4090", "NVIDIA GeForce RTX 4090", True, id="RTX4090 in one word"),
        pytest.param("A6000", "NVIDIA RTX A6000", True, id="A6000 without RTX"),
        pytest.param("Future-Chip X1", "NVIDIA-Future-Chip-X1", True, id="unknown products match exactly"),
        pytest.param("Future-Chip", "NVIDIA-Future-Chip-X1", False, id="unknown products match whole"),
        *(
            pytest.param(wish, product, False, id=f"{wish} is not {product}")
            for wish, product in [
                ("A100", "NVIDIA RTX A1000"),
                ("A100", "NVIDIA A100X"),
                ("A100", "A10-0"),
                ("A10", "NVIDIA A10G"),
                ("A10", "NVIDIA-A100-SXM4-80GB"),
                ("T4", "NVIDIA T4G"),
                ("L4", "NVIDIA L40"),
                ("L4", "NVIDIA L40S"),
                ("L40", "NVIDIA L40S"),
                ("H100", "H1000"),
                ("H20", "NVIDIA H200"),
                ("H200", "NVIDIA GH200 480GB"),
                ("B200", "NVIDIA GB200"),
            ]
        ),
    ],
)
def test_wish_matches_name_or_family_and_never_a_part(wish: str, product: str, matches: bool) -> None:
    assert meets(canonical_model(product), wish) is matches


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        pytest.param("", "is empty", id="nothing"),
        pytest.param("  \t", "is empty", id="only space"),
        pytest.param("A100*", "no product name", id="a pattern"),
        pytest.param("A100,H100", "no product name", id="an unsplit list"),
        pytest.param("--", "no product name", id="only separators"),
        pytest.param("A" * 129, "129 characters", id="129 characters"),
    ],
)
def test_illegal_wish_is_refused_with_its_reason(wish: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        normalise_model(wish)
