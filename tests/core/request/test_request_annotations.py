"""User annotations: every legal value, in words too, and the message for others."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.request.constraints import (
    GpuConstraints,
    constraints_in_words,
    parse_constraints,
    unknown_annotations,
)
from scheduler_ext.core.request.request import (
    ContainerRequest,
    ContainerRole,
    GpuRequest,
    InvalidRequest,
    UnitRequest,
    UnparsedRequest,
    parse_request,
)
from scheduler_ext.core.request.resource_names import ResourceNames

PREFIX = "gpu.scheduler-ext.io/"


def parsed(annotations: dict[str, str], resource: str = "nvidia.com/gpu") -> GpuRequest | InvalidRequest:
    container = ContainerRequest("main", ContainerRole.APP, {}, {resource: "1"})
    annotations = {PREFIX + key: value for key, value in annotations.items()}
    return parse_request(UnparsedRequest("ns", "p", "u", 0, annotations, [container]), ResourceNames())


@pytest.mark.parametrize(
    ("key", "text", "field", "value"),
    [
        pytest.param("model", " T4 ,\tL4 ", "models", ("T4", "L4"), id="with blanks around"),
        pytest.param("model", "T4,L4,t4", "models", ("T4", "L4"), id="a repeated model counts once"),
        pytest.param("min-memory", "40Gi", "min_memory_mib", 40960, id="memory in GiB"),
        pytest.param("min-memory", "40G", "min_memory_mib", 38147, id="memory in GB, rounded up"),
        pytest.param("min-free-memory", "20Gi", "min_free_mib", 20480, id="free memory"),
        pytest.param("min-compute-capability", "8.0", "min_compute_capability", (8, 0), id="a capability"),
        pytest.param("min-compute-capability", "9", "min_compute_capability", (9, 0), id="its major alone"),
        pytest.param("min-cuda", "12.4", "min_cuda", (12, 4), id="a CUDA version"),
        pytest.param("min-cuda", "12.4.1", "min_cuda", (12, 4, 1), id="a CUDA version with a patch"),
        pytest.param("strategy", "binpack", "strategy", "binpack", id="binpack"),
        pytest.param("sharing", "any", "sharing", "any", id="any sharing"),
    ],
)
def test_legal_annotations(key: str, text: str, field: str, value: Any) -> None:
    request = parsed({key: text})
    assert isinstance(request, GpuRequest), request
    assert getattr(request, field) == value


def test_without_annotations_nothing_is_restricted() -> None:
    assert parsed({}) == GpuRequest(units=(UnitRequest("nvidia.com/gpu", 1),))


@pytest.mark.parametrize(
    ("key", "text", "named"),
    [
        pytest.param("model", "", "empty", id="no model"),
        pytest.param("model", "T4,,L4", "empty", id="a comma too many"),
        pytest.param("model", "T4;L4", "use letters", id="another separator"),
        pytest.param("model", "T4\n\x1b[31mred;" + "x" * 3000, "", id="a hostile one"),
        pytest.param("model", "T4," * 2000, "at most 4096 are read", id="a long list of models"),
        pytest.param("min-memory", "40", "40Gi", id="bytes that must have been GiB"),
        pytest.param("min-memory", "0", "leave the annotation out", id="no memory"),
        pytest.param("min-free-memory", "40", "40Gi", id="free bytes that must have been GiB"),
        pytest.param("min-compute-capability", "8.0.1", "such as", id="three parts"),
        pytest.param("min-compute-capability", "sm_80", "such as", id="the compiler's name"),
        pytest.param("min-cuda", "12.4.1.0", "such as", id="four parts"),
        pytest.param("strategy", "Binpack", "binpack, spread", id="strategies are lower case"),
        pytest.param("sharing", "none", "exclusive, any", id="no such sharing"),
    ],
)
def test_illegal_annotations_are_refused_by_name_with_the_fix(key: str, text: str, named: str) -> None:
    request = parsed({key: text})
    assert isinstance(request, InvalidRequest), request
    assert f"annotation {PREFIX}{key}: " in request.message
    assert named in request.message
    assert request.message.isprintable()


@pytest.mark.parametrize("resource", ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb.shared"])
def test_an_exclusive_pod_cannot_ask_a_shared_gpu(resource: str) -> None:
    request = parsed({"sharing": "exclusive"}, resource)
    assert isinstance(request, InvalidRequest)
    assert f"{PREFIX}sharing" in request.message
    assert resource in request.message


@pytest.mark.parametrize(
    ("product", "rank"),
    [
        pytest.param("NVIDIA-H100-80GB-HBM3", 0, id="the first wish, by family"),
        pytest.param("NVIDIA-A100-SXM4-80GB", 1, id="the second wish, by exact name"),
        pytest.param("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", None, id="a slice of the first"),
    ],
)
def test_a_model_meets_the_first_wish_that_names_it(product: str, rank: int | None) -> None:
    request = parsed({"model": "H100,A100-80GB,H100-80GB"})
    assert isinstance(request, GpuRequest)
    assert request.model_rank(canonical_model(product)) == rank


def test_unknown_annotations_are_found_but_do_nothing() -> None:
    annotations = {
        PREFIX + "modle": "T4",
        PREFIX + "min-memmory": "40Gi",
        PREFIX + "model": "T4",
        PREFIX + "assigned": "{}",
        "devices.gpu.scheduler-ext.io/main": "GPU-0",
        "example.com/model": "T4",
    }
    assert unknown_annotations(annotations) == [PREFIX + "min-memmory", PREFIX + "modle"]
    assert parsed({"modle": "T4"}) == parsed({})


IN_WORDS = [
    pytest.param({"model": "H100, A100-80GB"}, ["model H100 or A100-80GB"], id="models are alternatives"),
    pytest.param({"min-memory": "40Gi"}, ["at least 40960 MiB"], id="memory is in MiB"),
    pytest.param({"min-compute-capability": "8"}, ["min-compute-capability 8.0"], id="a capability has dots"),
    pytest.param({"min-cuda": "12.4"}, ["min-cuda 12.4"], id="a CUDA version has dots"),
    pytest.param({"strategy": "spread"}, ["strategy spread"], id="a wish without words shows key and value"),
    pytest.param(
        {"strategy": "binpack", "model": "T4"}, ["model T4", "strategy binpack"], id="in the order of fields"
    ),
]


@pytest.mark.parametrize(("annotations", "words"), IN_WORDS)
def test_wishes_in_words(annotations: dict[str, str], words: list[str]) -> None:
    wishes = parse_constraints({PREFIX + key: value for key, value in annotations.items()})
    assert constraints_in_words(GpuConstraints(**wishes)) == words  # type: ignore[arg-type]
