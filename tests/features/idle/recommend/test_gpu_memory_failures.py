"""Containers that ran out of GPU memory, by their termination message."""

from __future__ import annotations

import pytest

from scheduler_ext.features.idle.recommend.gpu_memory_failures import gpu_memory_failures
from tests.kube_objects import Json, pod, terminated
from tests.wire.decoded_pods import decoded

TORCH = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def failures(ended: Json) -> list[tuple[str, str]]:
    return list(gpu_memory_failures(decoded(ended)))


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(TORCH, id="PyTorch"),
        pytest.param("RuntimeError: CUDA driver error: out of memory", id="PyTorch, from the driver"),
        pytest.param("[TRT] [E] Error Code 1: Cuda Runtime (out of memory)", id="TensorRT"),
        pytest.param(
            "torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate", id="PyTorch on AMD"
        ),
        pytest.param(
            "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4 bytes.", id="JAX"
        ),
        pytest.param("OOM when allocating tensor with shape[512,1024] on /device:GPU:0", id="TensorFlow"),
        pytest.param(
            "failed to allocate 1.2G: CUDA_ERROR_OUT_OF_MEMORY: out of memory", id="the CUDA driver"
        ),
        pytest.param(
            "ValueError: No available memory for the cache blocks.", id="vLLM without room for its cache"
        ),
        pytest.param(
            "ValueError: Free memory on device cuda:0 (3.1/79.2 GiB) on startup is less than desired GPU "
            "memory utilization (0.9, 71.2 GiB).",
            id="vLLM on a GPU that others use",
        ),
        pytest.param("allocating 5000.00 MiB on device 0: cudaMalloc failed: out of memory", id="llama.cpp"),
        pytest.param("misc/strongstream.cc:53 NCCL WARN Cuda failure 2 'out of memory'", id="NCCL"),
        pytest.param("a" * 2000 + "\n" + TORCH + "\nexit status 1", id="at the end of a long log"),
    ],
)
def test_a_container_ran_out_of_gpu_memory(message: str) -> None:
    assert failures(terminated(pod("p"), message)) == [("main", "containerd://1")]
    assert failures(terminated(pod("p"), message, running=False)) == [("main", "containerd://1")]


@pytest.mark.parametrize(
    "ended",
    [
        pytest.param(pod("p"), id="a pod without containers so far"),
        pytest.param(
            terminated(pod("p"), "OOM when allocating tensor on /device:CPU:0 by allocator cpu"),
            id="a tensor in the host's memory",
        ),
        pytest.param(
            terminated(pod("p"), "RESOURCE_EXHAUSTED: Received message larger than max"), id="a full message"
        ),
        pytest.param(terminated(pod("p"), TORCH, exit_code=0), id="a container that ended well"),
        pytest.param(
            pod("p") | {"status": {"containerStatuses": [None, {"name": None, "lastState": None}]}},
            id="null is absent",
        ),
    ],
)
def test_other_ends_are_none(ended: Json) -> None:
    assert failures(ended) == []


def test_a_container_that_failed_twice_has_two_failures() -> None:
    first, second = terminated(pod("p"), TORCH), terminated(pod("p"), TORCH, number=2, running=False)
    (status,) = second["status"]["containerStatuses"]
    status["lastState"] = first["status"]["containerStatuses"][0]["lastState"]
    assert failures(second) == [("main", "containerd://2"), ("main", "containerd://1")]
