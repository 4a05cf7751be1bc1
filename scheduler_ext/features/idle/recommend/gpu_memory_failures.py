"""Containers that ended because they got no more GPU memory, by their termination message. Kubelet fills that
with the end of the log where `terminationMessagePolicy` is FallbackToLogsOnError.

Sources of the texts: c10/cuda/CUDACachingAllocator.cpp and driver_api.h of PyTorch; the log of TensorRT; the
errors cudaErrorMemoryAllocation and CUDA_ERROR_OUT_OF_MEMORY of CUDA; src/misc of NCCL; ggml-cuda of
llama.cpp; the BFC allocator and the PJRT clients of XLA; core/framework of TensorFlow;
v1/core/kv_cache_utils.py and v1/worker of vLLM."""

import re
from collections.abc import Iterator

from scheduler_ext.wire import kube

_TEXTS = re.compile(
    r"(?:CUDA|HIP) out of memory"
    r"|(?:CUDA|HIP)(?: driver)? error: out of memory"
    r"|Cuda Runtime \(out of memory\)"
    r"|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED"
    r"|cudaMalloc failed: out of memory"
    r"|Cuda failure (?:\d+ )?'out of memory'"
    r"|(?:RESOURCE_EXHAUSTED|Resource exhausted): (?:Out of memory while trying|Failed to allocate request)"
    r"|OOM when allocating tensor[^\n]*GPU"
    r"|cupy\S*OutOfMemoryError"
    r"|No available memory for the cache blocks"
    r"|Free memory on device [^\n]*less than desired GPU memory utilization"
    r"|larger than the (?:available|maximum number of tokens that can be stored in) KV cache"
)


def gpu_memory_failures(pod: kube.Pod) -> Iterator[tuple[str, str]]:
    """The terminations of a pod's containers that its status has and that ran out of GPU memory: the name of
    the container, and an identity of the termination."""
    statuses = (pod.status.container_statuses if pod.status is not None else None) or ()
    for status in statuses:
        for state in (status.state, status.last_state) if status is not None else ():
            ended = state.terminated if state is not None else None
            if status is not None and ended is not None and _lacked_memory(ended):
                yield status.name or "", ended.container_id or ended.finished_at or ""


def _lacked_memory(ended: kube.TerminatedContainer) -> bool:
    return bool(ended.exit_code and ended.message and _TEXTS.search(ended.message))
