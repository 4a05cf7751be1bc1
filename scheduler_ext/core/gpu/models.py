"""GPU model names: one canonical name for the many spellings of NVML, label sources and people. Without
`-SHARED`, `-MIG-INVALID` and the suffix of a MIG slice, vendor words, form factors and memory sizes, a name
must be a product of the table as a whole: `A100` is neither `A1000` nor `A100X`. The size decides between
products that differ only in memory: the one in the name, then the measured, then the usual one. An unknown
product keeps its name without words of brands, form factors and editions, so that `RTX 4070 Ti` is `NVIDIA
GeForce RTX 4070 Ti`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from scheduler_ext.core.gpu.model_table import MODEL_ROWS, VGPU_BOARDS, ModelRow

# Cloud labels and drivers disagree by up to 1.4 % on one product (EC2 22888 MiB, NVML 23034 on an L4).
_MEMORY_TOLERANCE = 0.02
# NVML gives at most 96 characters, a label has at most 63; more is no name, and only costs time.
_MAX_PRODUCT_LENGTH = 256
_MAX_WISH_LENGTH = 128
UNNAMED = "UNKNOWN"
"""The name of a model that no source names."""

_SEPARATORS = re.compile(r"[\s_/-]+")
_TRADEMARK = re.compile(r"\((?:r|tm|c)\)", re.IGNORECASE)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.+\s_/-]")
_LEGAL_WISH = re.compile(r"[A-Za-z0-9.+() _/-]+")
_MIG_SUFFIX = re.compile(
    r"(?P<base>.+?)-MIG-(?P<profile>(?:\d+C\.)?\d+G\.\d+GB(?:[.+](?:ME\.ALL|ME|GFX)|-ME)?)"
)
# Of GPU Feature Discovery: shared GPUs, and a MIG layout that strategy single does not hand out.
_SETUPS = ("-SHARED", "-MIG-INVALID")
# A type of NVIDIA vGPU: its board, the slices of one that is a MIG instance, gigabytes and series, such as
# GRID A100-10C, A100D-1-10CME, V100D-2B4 or RTX Pro 6000 Blackwell DC-4-96Q. The suffixes of MIG instances
# are those of NVIDIA/vgpu-device-manager (pkg/types).
_VGPU = re.compile(
    r"(?:GRID-)?(?P<board>[A-Z0-9-]*?[A-Z0-9])(?P<slices>-[1-9])?-(?P<gb>[1-9]\d{0,2})[ABCQ]"
    r"(?:4|ME|NOME|MEALL|GFX)?"
)
_SIZE = re.compile(r"([1-9]\d{0,3})G(?:I?B)?")
_MAX_Q = re.compile(r"-MAX-Q(?=-|$)")
_VENDOR_WORDS = {"NVIDIA": "nvidia", "AMD": "amd", "INTEL": "intel", "HABANA": "habana"}
_NOISE = re.compile(
    r"TESLA|GEFORCE|INSTINCT|RADEON|GPU|DATA|CENTER|DATACENTER"  # brands
    r"|SXM\d?|PCIE?|OAM|NVL|NVLINK|DGXS|FHHL|AC|LC|HF|VF|MEGA|HBM\d?E?"  # form factors and memory kinds
    rf"|{'|'.join(_VENDOR_WORDS)}"  # a vendor's, wherever it stands
    r"|BLACKWELL|SERVER|WORKSTATION|EDITION|GENERATION|ACTIVE"  # RTX PRO, Ada and A800 editions
    r"|VWS"  # Google Cloud: with a licence for virtual workstations, nvidia-l4-vws
    r"|[1-9]\d?X"  # CoreWeave: the number of GPUs, GB200_4x
)
# Only of products that are not in the table: there, RTX 6000 is another GPU than Quadro RTX 6000.
_MORE_BRANDS = re.compile(r"^(?:(?:QUADRO|PRO)-)+(?=.)")
# Words that people write as one: RTX4070TI.
_JOINED = re.compile(r"(?<=\bRTX)(?=\d)|(?<=\bGTX)(?=\d)|(?<=\d{4})(?=(?:TI|SUPER|XTX?)\b)")
# A GPU that only drives displays. NVIDIA's device plugin, GPU Feature Discovery and DRA driver leave it out
# (go-nvlib, pkg/nvlib/device, the devices skipped by default).
_DISPLAY = "DGX-DISPLAY"


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A GPU product by its canonical name, with its known facts. `name` is upper-case ("A100-80GB", "T4",
    "RTX-PRO-6000"); `family` is the same without memory size ("A100"). A MIG slice that is offered as a GPU
    of its own ("A100-80GB-MIG-1G.10GB") is its own family. `memory_mib` is the driver's total (MiB), of the
    slice for a slice; `mig_table` names the built-in MIG table of the physical GPU. None means unknown."""

    name: str
    family: str
    vendor: str
    architecture: str | None = None
    compute_capability: tuple[int, int] | None = None
    memory_mib: int | None = None
    mig_table: str | None = None

    @property
    def is_mig_slice(self) -> bool:
        """Whether the name is that of a MIG slice."""
        return _MIG_SUFFIX.fullmatch(self.name) is not None


def canonical_model(product: str, *, vendor: str = "nvidia", memory_mib: int | None = None) -> GpuModel:
    """Return the model that a product string names; never fails, an unknown product keeps its own name.
    `product` is an NVML name, a gpu.product label or a cloud's label value. `memory_mib` is the device's
    measured total (MiB): it distinguishes products that share a name, within 2 %, and becomes the memory of
    an unknown product. `vendor` counts only if neither the table nor the string names one."""
    return _canonical(_normalise(product[:_MAX_PRODUCT_LENGTH]), vendor, memory_mib)


def vgpu_fraction(product: str) -> int:
    """Return n where a product name or label is that of a vGPU with 1/n of its GPU's memory; 0 where the size
    of that memory is unknown. 1 for other names, and for a vGPU that is a whole GPU."""
    vgpu = _VGPU.fullmatch(_split_vendor(_normalise(product[:_MAX_PRODUCT_LENGTH]))[1])
    if vgpu is None:
        return 1
    name = _gpu_of(vgpu["board"]).name
    sizes_gb = _sizes_gb(next((row for row in MODEL_ROWS if row.name == name), ModelRow(name, "", None)))
    return max(1, round(sizes_gb[0] / int(vgpu["gb"]))) if sizes_gb else 0


def normalise_model(model: str) -> str:
    """Return the canonical name or family that a text (a name, a family or any product string) stands for.
    Raises ValueError when it is empty, longer than 128 characters or has other characters than names have."""
    text = model.strip()
    if not text:
        raise ValueError("GPU model is empty; name a model such as A100-80GB or a family such as A100")
    if len(text) > _MAX_WISH_LENGTH:
        raise ValueError(f"GPU model has {len(text)} characters; at most {_MAX_WISH_LENGTH} are allowed")
    if not _LEGAL_WISH.fullmatch(text) or not any(c.isalnum() for c in text):
        raise ValueError(
            f"GPU model {text!r} is no product name; use letters, digits, '-', '_', '.' and spaces"
        )
    name = _normalise(text)
    family = _FAMILIES.get(_key(_split_vendor(name)[1]))
    return family if family is not None else _canonical(name, "nvidia", None).name


def known_family(name: str) -> str | None:
    """The family that the table has for a name that `normalise_model` returned; None for another name."""
    family = canonical_model(name).family
    return family if family in _ROWS_OF_FAMILY else None


def is_display(product: str) -> bool:
    """Whether a product name or label is that of a GPU for displays alone, which no pod can get."""
    return _split_vendor(_normalise(product[:_MAX_PRODUCT_LENGTH]))[1] == _DISPLAY


def _family_of(name: str) -> str:
    return re.sub(r"-\d+GB$", "", name)


@lru_cache(maxsize=1024)
def _normalise(text: str) -> str:
    """Upper-case ASCII words joined by single dashes, without suffixes that say how GPUs are set up."""
    words = _SEPARATORS.sub("-", _NOT_IN_NAMES.sub("", _TRADEMARK.sub(" ", text))).strip("-").upper()
    while suffix := next(filter(words.endswith, _SETUPS), None):
        words = words.removesuffix(suffix).rstrip("-")
    return _JOINED.sub("-", words) or UNNAMED


@lru_cache(maxsize=1024)
def _canonical(name: str, vendor: str, memory_mib: int | None) -> GpuModel:
    named_vendor, bare = _split_vendor(name)
    slice_ = _MIG_SUFFIX.fullmatch(bare)
    if slice_ is None and (vgpu := _VGPU.fullmatch(bare)) is not None:
        gpu = _gpu_of(vgpu["board"])
        # Only one that is a MIG instance can have instances.
        return replace(gpu, memory_mib=memory_mib, mig_table=gpu.mig_table if vgpu["slices"] else None)
    if slice_ is None:
        return _whole_gpu(bare, named_vendor or vendor, memory_mib)
    # The memory is the slice's own, so it says nothing about which GPU was cut.
    gpu = _canonical(_normalise(slice_["base"]), named_vendor or vendor, None)
    slice_name = f"{gpu.name}-MIG-{slice_['profile'].replace('+', '.')}"
    return replace(gpu, name=slice_name, family=slice_name, memory_mib=memory_mib)


def _gpu_of(board: str) -> GpuModel:
    """The GPU of a vGPU type's board."""
    return _canonical(_normalise(VGPU_BOARDS.get(board, board)), "nvidia", None)


def _whole_gpu(bare: str, vendor: str, memory_mib: int | None) -> GpuModel:
    words = bare.split("-")
    sizes = [int(size[1]) for word in words if (size := _SIZE.fullmatch(word))]
    unsized = "-".join(word for word in words if not _SIZE.fullmatch(word))
    named = _MAX_Q.sub("", unsized).split("-")
    plain = "-".join(word for word in named if not _NOISE.fullmatch(word))
    usual = _ROW_OF_ALIAS.get(_key(unsized)) or _ROW_OF_ALIAS.get(_key(plain))
    family = _family_of(usual.name) if usual else _FAMILIES.get(_key(plain))
    if family is None:
        # Max-Q stays: such a GPU of a laptop is a product of its own.
        family = "-".join(word for word in unsized.split("-") if not _NOISE.fullmatch(word))
        family = _MORE_BRANDS.sub("", family) or bare
        name = f"{family}-{sizes[-1]}GB" if sizes and family != bare else family
        if name != bare:  # what is left may name a product, or end in a suffix
            return _canonical(_normalise(name), vendor, memory_mib)
        return GpuModel(name, family, vendor, memory_mib=memory_mib)
    rows = _ROWS_OF_FAMILY[family]
    if sizes:
        row = next((row for row in rows if sizes[-1] in _sizes_gb(row)), None)
        name = row.name if row else f"{family}-{sizes[-1]}GB"
    else:
        row = _nearest_by_memory(rows, memory_mib) or usual
        name = row.name if row else family
    if row is None:  # the family, in a size unknown or not in the table
        return GpuModel(
            name, family, rows[0].vendor, rows[0].architecture, rows[0].compute_capability, memory_mib
        )
    memory_mib = row.memory_mib if row.memory_mib is not None else memory_mib
    return GpuModel(
        row.name, family, row.vendor, row.architecture, row.compute_capability, memory_mib, row.mig_table
    )


def _nearest_by_memory(rows: Iterable[ModelRow], memory_mib: int | None) -> ModelRow | None:
    if memory_mib is None:
        return None
    candidates = [
        (abs(memory_mib - known), row)
        for row in rows
        if (known := row.memory_mib or max(_sizes_gb(row), default=0) * 1024)
        and abs(memory_mib - known) <= known * _MEMORY_TOLERANCE
    ]
    return min(candidates, key=lambda candidate: candidate[0])[1] if candidates else None


def _split_vendor(name: str) -> tuple[str | None, str]:
    """The vendor that the leading words name, and the rest; a name of vendor words only stays."""
    vendor = None
    head, dash, rest = name.partition("-")
    while dash and head in _VENDOR_WORDS:
        vendor = vendor or _VENDOR_WORDS[head]
        name = rest
        head, dash, rest = name.partition("-")
    return vendor, name


def _key(name: str) -> str:
    """Spelling used for look-ups: `RTX4090` is `RTX-4090`, but `A10-0` is not `A100`."""
    return re.sub(r"(?<=[A-Z])-", "", name)


def _sizes_gb(row: ModelRow) -> tuple[int, ...]:
    size = re.search(r"-(\d+)GB$", row.name)
    return (int(size[1]), *row.sizes_gb) if size else row.sizes_gb


_ROWS_OF_FAMILY: dict[str, tuple[ModelRow, ...]] = {
    family: tuple(row for row in MODEL_ROWS if _family_of(row.name) == family)
    for family in dict.fromkeys(_family_of(row.name) for row in MODEL_ROWS)
}
_FAMILIES: dict[str, str] = {_key(family): family for family in _ROWS_OF_FAMILY}
# A product named without its memory size is always the usual one of its family.
_ROW_OF_ALIAS: dict[str, ModelRow] = {
    _key(spelling): row
    for row in MODEL_ROWS
    for spelling in (*row.aliases, *([row.name] if _family_of(row.name) == row.name else []))
}
