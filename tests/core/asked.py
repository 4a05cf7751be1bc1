"""Build requests and nodes from a few words, for tests whose rows are sentences."""

from __future__ import annotations

from typing import Any

from scheduler_ext.core.gpu.gpu import Device, Holder, Memory
from scheduler_ext.core.gpu.models import GpuModel, canonical_model, normalise_model
from scheduler_ext.core.node.estimate import Estimate
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.request import GpuRequest, ShareRequest, UnitRequest
from tests.core.reported import device

# A pod with unreported devices holds the device whole.
HELD = (Holder(uid="someone"),)


def whole(count: int = 1, resource: str = "nvidia.com/gpu", **wishes: Any) -> GpuRequest:
    """So many whole GPUs."""
    return GpuRequest(units=(UnitRequest(resource, count),), **wishes)


def share(*sizes_mib: int, **wishes: Any) -> GpuRequest:
    """A container per share."""
    return GpuRequest(shares=ShareRequest(tuple((f"c{i}", mib) for i, mib in enumerate(sizes_mib))), **wishes)


def mig(profile: str, count: int = 1) -> GpuRequest:
    """So many MIG instances."""
    return GpuRequest(units=(UnitRequest(f"nvidia.com/mig-{profile}", count, profile),))


def meets(model: GpuModel, wish: str) -> bool:
    """Whether a pod with this wish for a model takes that one."""
    return GpuRequest(models=(normalise_model(wish),)).model_rank(model) is not None


def t4(index: int = 0, **fields: Any) -> Device:
    """An empty T4, GPU-<index>."""
    fields = {"memory": Memory(15360)} | fields
    return device(
        index, product="Tesla T4", model=canonical_model("Tesla T4"), compute_capability=(7, 5), **fields
    )


def labelled(product: str) -> NodeInfo:
    """A node of eight such GPUs, known by its labels only, which do not contain the memory."""
    model = canonical_model(product)
    return NodeInfo("n", estimate=Estimate("nvidia", model, 8, compute_capability=model.compute_capability))
