"""What a GPU is worth, in US dollars per hour: a shipped table, which a configuration or a node's label
overrides. Only ratios matter to placement.

Sources: on-demand list prices of one GPU's part of a machine, in the cheapest US region of Amazon EC2, Google
Compute Engine or Azure, autumn 2025, rounded. Where an older GPU costs more than a newer one with as much
memory and more compute (V100, P100, K80), the value is lowered to that of the newer one."""

import re
from collections.abc import Iterable, Mapping

from scheduler_ext.core.gpu.mig_geometry import slice_memory_mib, slice_profile
from scheduler_ext.core.gpu.model_table import AMD_PARTITIONS
from scheduler_ext.core.gpu.models import GpuModel, canonical_model

VALUES: dict[str, float] = {
    "K80": 0.2,
    "M60": 0.25,
    "P4": 0.25,
    "P40": 0.4,
    "P100": 0.45,
    "V520": 0.3,
    "V100-16GB": 0.6,
    "V100-32GB": 0.9,
    "T4": 0.5,
    "T4G": 0.4,
    "A2": 0.4,
    "A16": 0.4,
    "L4": 0.8,
    "A10": 1.0,
    "A10G": 1.0,
    "A30": 1.2,
    "A40": 1.4,
    "L20": 1.4,
    "L40": 1.6,
    "L40S": 1.9,
    "RTX-PRO-6000": 3.4,
    "A100-40GB": 2.7,
    "A800-40GB": 2.5,
    "A100-80GB": 3.4,
    "A800-80GB": 3.2,
    "H20-96GB": 3.4,
    "H20-141GB": 4.0,
    "H800-80GB": 6.0,
    "H100-80GB": 6.9,
    "H100-94GB": 7.0,
    "H100-96GB": 7.0,
    "GH200-96GB": 7.0,
    "GH200-144GB": 7.9,
    "H200-141GB": 7.9,
    "B200-180GB": 14.0,
    "GB200-186GB": 14.5,
    "GB200-189GB": 14.5,
    "B300": 17.8,
    "GB300": 18.3,
    "MI210": 1.8,
    "MI250": 1.8,
    "MI250X": 1.8,
    "MI300A": 4.5,
    "MI300X": 6.0,
    "MI308X": 4.0,
    "MI325X": 6.5,
    "MI350X": 8.5,
    "MI355X": 9.0,
    "GAUDI": 1.6,
    "GAUDI2": 2.6,
    "GAUDI3": 3.5,
}
DIGITS = 6
"""Of values and of parts of GPUs, in all lists: more digits are errors of rounding."""
# Of a family whose size is unknown: that of its cheapest member.
_FAMILIES: dict[str, float] = {}
for _name, _value in VALUES.items():
    _family = canonical_model(_name).family
    _FAMILIES[_family] = min(_value, _FAMILIES.get(_family, _value))
# Of a GPU that is not in the table: by its memory, as most cards of the table between T4 and A100 cost.
_VALUE_PER_GIB = 0.04
# As core.node.estimate names the devices into which an AMD GPU is divided: MI300X-CPX-NPS4.
_AMD_PARTITION = re.compile(f"(?P<gpu>.+)-(?P<mode>{'|'.join(AMD_PARTITIONS).upper()})(-NPS[0-9])?")
# Without a known memory: about that of the middle of the table.
_UNKNOWN = 1.5


def unlisted(names: Iterable[str]) -> list[str]:
    """The names that are no model or family of the shipped table."""
    return [name for name in names if name not in VALUES and name not in _FAMILIES]


def value_of(model: GpuModel, configured: Mapping[str, float]) -> float:
    """The value of one GPU of this model, `configured` by name or family, or that of the table. A MIG
    instance that is offered as a GPU has the model of its whole GPU."""
    # A slice is its own family.
    whole = canonical_model(model.name.partition("-MIG-")[0]) if model.is_mig_slice else model
    for known in (configured, VALUES, _FAMILIES):
        if (value := known.get(whole.name) or known.get(whole.family)) is not None:
            return value
    if (partition := _AMD_PARTITION.fullmatch(model.name)) is not None:
        gpu = canonical_model(partition["gpu"], vendor=model.vendor)
        return value_of(gpu, configured) / AMD_PARTITIONS[partition["mode"].lower()]
    return model.memory_mib / 1024 * _VALUE_PER_GIB if model.memory_mib else _UNKNOWN


def part_of_gpu(model: GpuModel) -> float:
    """Of a MIG instance that is offered as a GPU: its part of a GPU that has as many of them as possible; of
    an unknown profile its part of the GPU's memory. 1 for other GPUs."""
    if not model.is_mig_slice:
        return 1.0
    if (profile := slice_profile(model)) is not None:
        return 1 / profile.max_instances
    whole = canonical_model(model.name.partition("-MIG-")[0]).memory_mib
    own = model.memory_mib or slice_memory_mib(model)
    return min(1.0, own / whole) if own and whole else 1.0
