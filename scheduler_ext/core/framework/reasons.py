"""The closed set of reasons a node is refused for.

kube-scheduler groups nodes by identical text and counts them in the pod's event, and a text that
varies between attempts wakes the pod again (measured: over a thousand filter calls in ten seconds
for one pod). So reasons are constants without numbers or names; those belong to ``explain``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a node is refused: the text kube-scheduler shows, what it means, what to do."""

    text: str
    meaning: str
    remedy: str


INSUFFICIENT_GPUS = Reason(
    "Insufficient nvidia.com/gpu per device",
    "The node has too few whole GPUs that are healthy and held by nobody (of any configured resource name).",
    "Wait for a pod to finish, ask for fewer GPUs, or add nodes.",
)
INSUFFICIENT_MEMORY = Reason(
    "Insufficient GPU memory on one device",
    "No single GPU has the asked memory free, though the node's sum may suffice.",
    "Ask for a smaller share or a lower min-free-memory; a neighbour that leaves also helps.",
)
MODEL_MISMATCH = Reason(
    "node(s) didn't match the requested GPU model",
    "The node's GPUs are of another model than the pod's gpu.scheduler-ext.io/model names.",
    "Compare the annotation with `scheduler-ext inventory`; A100 is a family, A100-80GB one model.",
)
GPU_TOO_SMALL = Reason(
    "node(s) had GPUs too small",
    "The GPUs can never hold the request: their total memory is below min-memory or below one share.",
    "Lower gpu.scheduler-ext.io/min-memory or the share, or use nodes with larger GPUs.",
)
NO_MIG_PLACEMENT = Reason(
    "node(s) had no free MIG placement",
    "Too few free MIG instances of the asked profile exist on the node.",
    "Wait for an instance, ask for a profile the node offers, or change its MIG configuration.",
)
UNHEALTHY = Reason(
    "node(s) had unhealthy GPUs",
    "The request would fit if the node's unhealthy GPUs were healthy.",
    "See the device's health reason in `scheduler-ext inventory -o json`; reset or replace the GPU.",
)
SHARING_MODE = Reason(
    "node(s) had GPUs in another sharing mode",
    "The pod wants exclusive GPUs and these are time-sliced or MPS-shared, or it wants a shared resource"
    " and these are not shared.",
    "Drop gpu.scheduler-ext.io/sharing: exclusive, or use nodes without time-slicing.",
)
CUDA_TOO_OLD = Reason(
    "node(s) had too old a CUDA driver",
    "The node's driver supports a lower CUDA version than min-cuda, or does not say which.",
    "Upgrade the driver, or lower gpu.scheduler-ext.io/min-cuda.",
)
COMPUTE_CAPABILITY_TOO_LOW = Reason(
    "node(s) had too low a compute capability",
    "The node's GPUs have a lower CUDA compute capability than asked, or do not say which.",
    "Use nodes with newer GPUs, or lower gpu.scheduler-ext.io/min-compute-capability.",
)
NO_FRESH_INVENTORY = Reason(
    "node(s) had no fresh GPU inventory",
    "Nothing recent is known of the node's GPUs; nodes known by labels only take whole GPUs alone.",
    "Check that the node's agent runs and reports, or that the inventory file lists the node.",
)
CHANGE_IN_PROGRESS = Reason(
    "node(s) had a GPU change in progress",
    "The node's labels say that its MIG layout or its driver is being changed.",
    "Wait until nvidia.com/mig.config.state is success and the driver upgrade is done.",
)
INVALID_REQUEST = Reason(
    "pod's GPU request is invalid",
    "A quantity or annotation of the pod cannot be read, is absurd, or contradicts another.",
    "Run `scheduler-ext explain -f pod.yaml`: it names the field and the fix.",
)

# In the order in which filters ask; a verdict is an index into this tuple plus one.
REASONS: tuple[Reason, ...] = (
    INVALID_REQUEST,
    NO_FRESH_INVENTORY,
    CHANGE_IN_PROGRESS,
    MODEL_MISMATCH,
    COMPUTE_CAPABILITY_TOO_LOW,
    CUDA_TOO_OLD,
    GPU_TOO_SMALL,
    SHARING_MODE,
    UNHEALTHY,
    INSUFFICIENT_GPUS,
    NO_MIG_PLACEMENT,
    INSUFFICIENT_MEMORY,
)
