"""The annotations by which users restrict or prefer GPUs, read one by one."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from scheduler_ext.core.gpu.models import known_family, normalise_model
from scheduler_ext.core.request.quantity import QuantityError, as_mib
from scheduler_ext.core.request.resource_names import DEFAULT_SHARE

ANNOTATION_PREFIX = "gpu.scheduler-ext.io/"
MAX_ANNOTATION_CHARS = 4096
# Spellings of other projects.
# nvidia.com/gpu.type, nvidia.com/use-gputype (HAMi), nvidia.com/gpu.product (GPU Feature Discovery).
_MODEL_SPELLING = re.compile(r"gpu[^/]*(type|model|product)")
# nvidia.com/gpumem (HAMi), aliyun.com/gpu-mem (gpushare), volcano.sh/vgpu-memory, gpu-fraction (KAI).
_PART_SPELLING = re.compile(r"gpu[^/]*(mem|core|fraction)")

# Keys of node labels such as gpu-memory, gpu.memory and gpu_mem.
_MEMORY_LABEL = re.compile(r"gpu.?(mem|vram)")
_LABEL_SIZE = re.compile(r"([0-9]{1,9})([MG]?)(?:i?B?)", re.ASCII | re.IGNORECASE)
# No GPU has so little memory in MiB, nor so much in GB.
_LEAST_MIB = 1024

MODEL_HINT = f'choose GPU models with the annotation {ANNOTATION_PREFIX}model, such as "A100"'


class ConstraintError(ValueError):
    """A constraint that cannot be read or contradicts itself; never leaves the parsing of a request."""


@lru_cache(maxsize=1024)  # the pods of a Deployment have equal annotations
def _models(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(normalise_model(part) for part in text.split(",")))


def _version(pattern: str, example: str) -> Callable[[str], tuple[int, ...]]:
    compiled = re.compile(pattern, re.ASCII)

    def parse(text: str) -> tuple[int, ...]:
        if not compiled.fullmatch(text):
            raise ValueError(f"is no version such as {example}")
        return tuple(int(part) for part in text.split("."))

    return parse


_capability = _version(r"\d{1,2}(\.\d{1,2})?", '"8.0"')


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return parse


def _positive_mib(text: str) -> int:
    mib = as_mib(text)
    if mib == 0:
        raise ValueError("is 0; leave the annotation out to ask nothing")
    return mib


def _constraint(key: str, parse: Callable[[str], object], unset: Any, words: str = "") -> Any:
    """A field that an annotation sets; a parser raises ValueError with the rest of a sentence. `words` name a
    value where pods are listed (default: the key and the value)."""
    return field(default=unset, metadata={"key": key, "parse": parse, "words": words or key + " {}"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuConstraints:
    """The part of a request that annotations set, one field for each annotation."""

    models: tuple[str, ...] = _constraint("model", _models, ())
    """Only GPUs of one of these models or families, with preference for the first: `A100-80GB,H100`. Any
    letter case, any spelling of the product (`NVIDIA A100-SXM4-80GB`), whole names only: `A100` is neither
    `A1000` nor `A100-80GB-MIG-1G.10GB`."""
    min_memory_mib: int = _constraint("min-memory", _positive_mib, 0, "at least {} MiB")
    """GPUs with at least this total memory: `40Gi`."""
    min_free_mib: int = _constraint("min-free-memory", _positive_mib, 0, "at least {} MiB free")
    """GPUs with at least this much memory free: `20Gi`."""
    min_compute_capability: tuple[int, int] | None = _constraint(
        "min-compute-capability", lambda text: (*_capability(text), 0)[:2], None
    )
    """GPUs of at least this CUDA compute capability: `"8.0"`."""
    min_cuda: tuple[int, ...] | None = _constraint(
        "min-cuda", _version(r"\d{1,3}(\.\d{1,3}){0,2}", '"12.4"'), None
    )
    """Nodes whose driver serves at least this CUDA version: `"12.4"`."""
    strategy: str | None = _constraint("strategy", _one_of("binpack", "spread"), None)
    """`binpack` prefers the fullest GPUs, `spread` the emptiest, in place of the configured strategy."""
    sharing: str | None = _constraint("sharing", _one_of("exclusive", "any"), None)
    """Time slices, parts by MPS, and MIG instances that are handed out as GPUs (strategy `single`):
    `exclusive` refuses nodes that hand them out, `any` accepts them like whole GPUs. Without the annotation,
    a pod of several GPUs is refused there, because several give one process no more compute, and a pod of one
    GPU gets one only when no whole GPU of a node with a report fits. Containers get no more replicas than the
    device plugin gives: one under MPS."""


# annotation key -> (field of GpuConstraints, parser)
CONSTRAINTS: dict[str, tuple[str, Callable[[str], object]]] = {
    each.metadata["key"]: (each.name, each.metadata["parse"]) for each in fields(GpuConstraints)
}


def constraints_in_words(constraints: GpuConstraints) -> list[str]:
    """Each constraint that the pod has, in a few words."""
    found = []
    for each in fields(GpuConstraints):
        if (value := getattr(constraints, each.name)) != each.default:
            if isinstance(value, tuple):
                # Names are alternatives, numbers the parts of a version.
                value = (" or " if isinstance(value[0], str) else ".").join(map(str, value))
            found.append(each.metadata["words"].format(value))
    return found


def parse_constraints(annotations: Mapping[str, str]) -> dict[str, object]:
    """The fields of a request that the annotations set. Raises ConstraintError naming the annotation."""
    constraints = {}
    for key, (attribute, parse) in CONSTRAINTS.items():
        text = annotations.get(ANNOTATION_PREFIX + key)
        if text is None:
            continue
        where = f"annotation {ANNOTATION_PREFIX}{key}: {shown(text)}"
        if len(text) > MAX_ANNOTATION_CHARS:
            raise ConstraintError(
                f"{where} has {len(text)} characters; at most {MAX_ANNOTATION_CHARS} are read"
            )
        try:
            constraints[attribute] = parse(text.strip())
        except QuantityError as error:
            # Its text contains the value.
            raise ConstraintError(f"annotation {ANNOTATION_PREFIX}{key}: {error}") from None
        except ValueError as error:
            raise ConstraintError(f"{where} {error}") from None
    return constraints


def requested_models(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """The models that the annotations name; none if that cannot be read."""
    text = annotations.get(f"{ANNOTATION_PREFIX}model")
    if text is None or len(text) > MAX_ANNOTATION_CHARS:
        return ()
    try:
        return _models(text.strip())
    except ValueError:
        return ()


# Annotations that are no constraints on nodes.
_OTHERS = (
    "movable",
    "gang",
    "gang-size",
    "gang-required-topology",
    "gang-preferred-topology",
    "gang-deadline",
    "gang-on-deadline",
    "max-duration",
)
# Annotations that the extender writes.
_WRITTEN = ("assigned", "gang-node", "planned", "reclaim-at")


def unknown_annotations(annotations: Mapping[str, str]) -> list[str]:
    """Keys under our prefix that users do not set or that mean nothing: most likely a typing mistake."""
    known = {ANNOTATION_PREFIX + key for key in (*CONSTRAINTS, *_OTHERS, *_WRITTEN)}
    return sorted(key for key in annotations if key.startswith(ANNOTATION_PREFIX) and key not in known)


def meant_annotation(key: str) -> str | None:
    """The annotation of users that a misspelt one under our prefix is nearest to; None if none is near."""
    name = key.removeprefix(ANNOTATION_PREFIX).lower()
    close = get_close_matches(name, (*CONSTRAINTS, *_OTHERS), n=1)
    return f"{ANNOTATION_PREFIX}{close[0]}" if close else None


def shown(text: str) -> str:
    """A foreign text fit for one line of message: quoted, control characters escaped, cut at 80."""
    return repr(text if len(text) <= 80 else text[:77] + "...")


def part_hint(share: str = DEFAULT_SHARE) -> str:
    """How a container requests a part of one GPU; `share` is the configured resource."""
    return f"for a part of one GPU ask {share} in MiB, such as 8192"


def spelling_hint(name: str, share: str = DEFAULT_SHARE) -> str | None:
    """How to write a resource, annotation or label of another project here; None if it is no such name."""
    if name.startswith(ANNOTATION_PREFIX) or name == share:
        return None
    lower = name.lower()
    if _MODEL_SPELLING.search(lower):
        return MODEL_HINT
    return part_hint(share) if _PART_SPELLING.search(lower) else None


def selector_hint(key: str, operator: str, values: Sequence[str]) -> str | None:
    """How to write as a constraint what a selector for a label of other clusters means, such as accelerator
    or gpu-memory; None if it is about no GPU."""
    lower = key.lower()
    sizes = [size for value in values if (size := _LABEL_SIZE.fullmatch(value))]
    if _MEMORY_LABEL.search(lower) and operator in ("Gt", "In") and sizes:
        number, unit = int(sizes[0][1]), sizes[0][2].upper()
        # A bare number is in MiB, as in GPU Feature Discovery's label, or a few GB. A GPU that is sold with
        # 80 GB has less than 80 GiB.
        in_gb = unit == "G" or (not unit and number < _LEAST_MIB)
        least = f"{number}{'G' if in_gb else 'Mi'}"
        return f'choose by memory with the annotation {ANNOTATION_PREFIX}min-memory: "{least}"'
    if operator == "In" and values and (_MODEL_SPELLING.search(lower) or "accelerator" in lower):
        try:
            families = [known_family(normalise_model(each)) for each in values]
        except ValueError:
            return MODEL_HINT
        # Values such as nvidia or aws-inferentia2 name no GPU.
        if models := ",".join(dict.fromkeys(family for family in families if family is not None)):
            return f'choose the model with the annotation {ANNOTATION_PREFIX}model: "{models}"'
    return spelling_hint(key)


def resource_hint(name: str, share: str = DEFAULT_SHARE) -> str | None:
    """`spelling_hint` for a resource: only `share` has our prefix, so any other name is a misspelling."""
    if name == share:
        return None
    return spelling_hint(name.replace(ANNOTATION_PREFIX, "gpu-", 1), share)
