"""User annotations: every legal value, and the message for others."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.request.request import (
    ContainerAsk,
    GpuRequest,
    InvalidRequest,
    PodAsk,
    Role,
    parse_request,
)
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.core.request.wishes import unknown_annotations

PREFIX = "gpu.scheduler-ext.io/"


def parsed(annotations: dict[str, str], resource: str = "nvidia.com/gpu") -> GpuRequest | InvalidRequest:
    container = ContainerAsk("main", Role.APP, {}, {resource: "1"})
    annotations = {PREFIX + key: value for key, value in annotations.items()}
    return parse_request(PodAsk("ns", "p", "u", 0, annotations, [container]), ResourceNames())


@pytest.mark.parametrize(
    ("key", "text", "field", "value"),
    [
        pytest.param("model", "A100-80GB", "models", ("A100-80GB",), id="one model"),
        pytest.param(
            "model", "H100,A100-80GB,T4", "models", ("H100", "A100-80GB", "T4"), id="in their order"
        ),
        pytest.param("model", " T4 ,\tL4 ", "models", ("T4", "L4"), id="with blanks around"),
        pytest.param("model", "T4,L4,t4", "models", ("T4", "L4"), id="a repeated model counts once"),
        pytest.param("model", "NVIDIA-H100-80GB-HBM3", "models", ("H100-80GB",), id="a product label"),
        pytest.param("model", "Foo-9000", "models", ("FOO-9000",), id="an unknown product"),
        pytest.param("min-memory", "40Gi", "min_memory_mib", 40960, id="memory in GiB"),
        pytest.param("min-memory", "40G", "min_memory_mib", 38147, id="memory in GB, rounded up"),
        pytest.param("min-free-memory", "20Gi", "min_free_mib", 20480, id="free memory"),
        pytest.param("min-compute-capability", "8.0", "min_compute_capability", (8, 0), id="a capability"),
        pytest.param("min-compute-capability", "9", "min_compute_capability", (9, 0), id="its major alone"),
        pytest.param(
            "min-compute-capability", " 8.6\n", "min_compute_capability", (8, 6), id="blanks around"
        ),
        pytest.param("min-cuda", "12.4", "min_cuda", (12, 4), id="a CUDA version"),
        pytest.param("min-cuda", "12.4.1", "min_cuda", (12, 4, 1), id="a CUDA version with a patch"),
        pytest.param("strategy", "binpack", "strategy", "binpack", id="binpack"),
        pytest.param("strategy", "spread", "strategy", "spread", id="spread"),
        pytest.param("sharing", "any", "sharing", "any", id="any sharing"),
    ],
)
def test_legal_annotations(key: str, text: str, field: str, value: Any) -> None:
    request = parsed({key: text})
    assert isinstance(request, GpuRequest), request
    assert getattr(request, field) == value


def test_without_annotations_nothing_is_restricted() -> None:
    request = parsed({})
    assert isinstance(request, GpuRequest)
    assert (request.models, request.min_memory_mib, request.min_free_mib) == ((), 0, 0)
    assert (request.min_compute_capability, request.min_cuda) == (None, None)
    assert (request.strategy, request.sharing) == (None, None)


@pytest.mark.parametrize(
    ("key", "text", "named"),
    [
        pytest.param("model", "", "empty", id="no model"),
        pytest.param("model", "T4,,L4", "empty", id="a comma too many"),
        pytest.param("model", "T4;L4", "use letters", id="another separator"),
        pytest.param("model", "-", "no product name", id="no letter at all"),
        pytest.param("model", "A" * 129, "at most 128", id="a long model"),
        pytest.param("model", "T4," * 2000, "at most 4096 are read", id="a long list of models"),
        pytest.param("min-memory", "40", "40Gi", id="bytes that must have been GiB"),
        pytest.param("min-memory", "0", "leave the annotation out", id="no memory"),
        pytest.param("min-free-memory", "much", "cannot be read", id="a word for free memory"),
        pytest.param("min-free-memory", "40", "40Gi", id="free bytes that must have been GiB"),
        pytest.param("min-compute-capability", "8.0.1", "such as", id="three parts"),
        pytest.param("min-compute-capability", "sm_80", "such as", id="the compiler's name"),
        pytest.param("min-compute-capability", "-8", "such as", id="a negative capability"),
        pytest.param("min-cuda", "12.4.1.0", "such as", id="four parts"),
        pytest.param("strategy", "Binpack", "binpack, spread", id="strategies are lower case"),
        pytest.param("strategy", "random", "binpack, spread", id="no such strategy"),
        pytest.param("sharing", "none", "exclusive, any", id="no such sharing"),
        pytest.param("sharing", "true", "exclusive, any", id="a boolean"),
    ],
)
def test_illegal_annotations_are_refused_by_name_with_the_fix(key: str, text: str, named: str) -> None:
    request = parsed({key: text})
    assert isinstance(request, InvalidRequest), request
    assert f"annotation {PREFIX}{key}: " in request.message
    assert named in request.message


def test_a_refusal_is_one_printable_line() -> None:
    request = parsed({"model": "T4\n\x1b[31mred;" + "x" * 3000})
    assert isinstance(request, InvalidRequest)
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
        pytest.param("NVIDIA-A100-SXM4-40GB", None, id="another size of the second"),
        pytest.param("NVIDIA RTX A1000", None, id="a name that begins alike"),
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
