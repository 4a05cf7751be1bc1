"""Models as traces write them, read as the server reads those of nodes and pods."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from scheduler_ext.core.gpu.models import GpuModel, canonical_model, normalise_wish


@lru_cache(maxsize=4096)
def model_of(name: str) -> GpuModel:
    """What a node's GPUs are."""
    return canonical_model(name, vendor="nvidia")


@lru_cache(maxsize=4096)
def wish_of(name: str) -> str:
    """The model or family that a pod names, as GpuModel has it."""
    try:
        return normalise_wish(name)
    except ValueError:
        # No product is called so, but a trace's node may be.
        return model_of(name).name


def admits(wishes: Sequence[str], model: str) -> bool:
    """Whether a pod that names these models may go to GPUs of that one; to any where it names none."""
    known = model_of(model)
    return not wishes or any(wish_of(wish) in (known.name, known.family) for wish in wishes)
