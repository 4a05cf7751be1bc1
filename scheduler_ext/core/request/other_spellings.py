"""GPU wishes in the spelling of other projects and of labels, and the spelling that works here."""

from __future__ import annotations

import re

from scheduler_ext.core.request.resource_names import DEFAULT_SHARE
from scheduler_ext.core.request.wishes import ANNOTATION_PREFIX

# nvidia.com/gpu.type, nvidia.com/use-gputype (HAMi), nvidia.com/gpu.product (GPU Feature Discovery).
_MODEL = re.compile(r"gpu[^/]*(type|model|product)")
# nvidia.com/gpumem (HAMi), aliyun.com/gpu-mem (gpushare), volcano.sh/vgpu-memory, gpu-fraction (KAI).
_PART = re.compile(r"gpu[^/]*(mem|core|fraction)")

MODEL_HINT = f'choose GPU models with the annotation {ANNOTATION_PREFIX}model, such as "A100"'


def part_hint(share: str = DEFAULT_SHARE) -> str:
    """How a container asks a part of one GPU; ``share`` is the configured resource."""
    return f"for a part of one GPU ask {share} in MiB, such as 8192"


def spelling_hint(name: str, share: str = DEFAULT_SHARE) -> str | None:
    """How to write what a resource, annotation or label of another project means; None where it means none.

    Names under our own prefix have their meaning, or a message of their own.
    """
    if name.startswith(ANNOTATION_PREFIX) or name == share:
        return None
    lower = name.lower()
    if _MODEL.search(lower):
        return MODEL_HINT
    return part_hint(share) if _PART.search(lower) else None


def resource_hint(name: str, share: str = DEFAULT_SHARE) -> str | None:
    """The same of a resource: none but ``share`` has our own prefix, so another one is a misspelling."""
    if name == share:
        return None
    return spelling_hint(name.replace(ANNOTATION_PREFIX, "gpu-", 1), share)
