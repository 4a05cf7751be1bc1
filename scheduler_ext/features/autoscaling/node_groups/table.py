"""The table of a cluster's node groups: a file for `autoscaler-config`, with its checks."""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import Meta, Struct, field

from scheduler_ext.core.errors import ConfigError, DocumentError
from scheduler_ext.core.gpu.gpu import Memory
from scheduler_ext.core.gpu.mig_geometry import Geometry, geometry_for
from scheduler_ext.core.gpu.mig_profile import parse_profile
from scheduler_ext.core.gpu.model_table import INSTANCE_TYPE_ROWS, MODEL_ROWS, ModelRow
from scheduler_ext.core.gpu.models import GpuModel, canonical_model
from scheduler_ext.core.node.node_labels import (
    AGENT_LABEL,
    MANAGED_STARTING_TAINT,
    MODEL_LABEL,
    STARTING_TAINT,
)
from scheduler_ext.wire.decoding import explained
from scheduler_ext.wire.documents import json_documents
from scheduler_ext.wire.node_info import SHARE_NODE_LABEL
from scheduler_ext.wire.yaml_values import CONFIGURATION

API_VERSION = "cli.scheduler-ext.io/v1alpha1"
KIND = "NodeGroups"
# Karpenter's weights end at 100.
MAX_GROUPS = 100
_MODELS = {row.name: row for row in MODEL_ROWS}
_NAMED = 3
_MIB_AT_MOST = 2**24

Name = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
InstanceType = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][-A-Za-z0-9_.]{0,62}$")]
LabelKey = Annotated[
    str,
    Meta(pattern=r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"),
]
LabelValue = Annotated[str, Meta(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")]
Amount = Annotated[str, Meta(pattern=r"^[0-9]{1,9}(\.[0-9]{1,3})?(m|[KMGT]i?)?$")]
Duration = Annotated[str, Meta(pattern=r"^([0-9]{1,6}(s|m|h))+$|^Never$")]
HandOut = Literal["whole", "memory-shares", "mig", "time-slicing"]
CapacityType = Literal["spot", "on-demand"]
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
Strategy = Literal["mixed", "single"]
_WORDS: Final = {
    field: get_args(words)
    for field, words in (
        ("handOut", HandOut),
        ("capacityType", CapacityType),
        ("effect", Effect),
        ("strategy", Strategy),
    )
}
_VALUE: Final = "at most 63 letters, digits, '-', '_' and '.'"
# Of fields with a pattern: what to write.
_EXAMPLES: Final = {
    "name": "lower-case letters, digits and hyphens, such as a100-mig",
    "instanceTypes": "a type such as g6.12xlarge",
    "zones": "a zone such as europe-west4-a",
    "location": "a zone or region such as europe-west4",
    "cluster": "lower-case letters, digits and hyphens, such as my-cluster",
    "consolidateAfter": "a duration such as 5m, or Never",
    "cpu": 'an amount such as "96"',
    "memory": "an amount such as 1152Gi",
    "labels": f"keys such as example.com/team, and values of {_VALUE}",
    "key": "a key such as example.com/team",
    "value": _VALUE,
    "group": "a group such as karpenter.k8s.aws",
    "kind": "a kind such as EC2NodeClass",
}
# What the command states itself.
_OWN_LABELS: Final = (MODEL_LABEL, SHARE_NODE_LABEL, AGENT_LABEL)
_OWN_TAINTS: Final = (STARTING_TAINT, MANAGED_STARTING_TAINT)
# Drivers of one model differ by less in what they report as its memory.
_SAME_MEMORY = 1.02


class _TableSection(Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """Base of all sections: an unknown key is an error."""


class GroupTaint(_TableSection, frozen=True):
    """A taint that every node of a group keeps."""

    key: LabelKey
    effect: Effect
    value: LabelValue = ""


class MigLayout(_TableSection, frozen=True):
    """The MIG instances of each GPU by profile, and how the device plugin names them."""

    profiles: dict[str, Annotated[int, Meta(ge=1, le=16)]]
    strategy: Strategy = "mixed"


class NodeGroup(_TableSection, frozen=True):
    """Machines of equal GPUs that an autoscaler adds and removes."""

    name: Name
    instance_types: Annotated[list[InstanceType], Meta(min_length=1, max_length=50)]
    model: Annotated[str, Meta(min_length=1, max_length=128)]
    gpus_per_node: Annotated[int, Meta(ge=1, le=16)]
    max: Annotated[int, Meta(ge=1, le=100_000)]
    min: Annotated[int, Meta(ge=0, le=100_000)] = 0
    hand_out: HandOut = "whole"
    mig: MigLayout | None = None
    replicas: Annotated[int, Meta(ge=2, le=64)] | None = None
    memory_mi_b: Annotated[int, Meta(ge=1, le=_MIB_AT_MOST)] | None = field(default=None, name="memoryMiB")
    capacity_type: CapacityType = "on-demand"
    labels: dict[LabelKey, LabelValue] = field(default_factory=dict)
    taints: list[GroupTaint] = field(default_factory=list)
    zones: Annotated[list[Name], Meta(max_length=20)] = field(default_factory=list)
    cpu: Amount | None = None
    memory: Amount | None = None

    @property
    def gpu(self) -> GpuModel:
        """Its model in the table."""
        return canonical_model(self.model)

    @property
    def gpu_mib(self) -> int:
        """The memory of one GPU for pods: as stated, or the total of the table; 0 if neither is known."""
        return self.memory_mi_b or self.gpu.memory_mib or 0

    @property
    def parts(self) -> int:
        """n where a machine may have 1/n of a GPU; 1 if all have whole ones."""
        return max(map(_fraction, self.instance_types))

    @property
    def hands_out_parts(self) -> bool:
        """Whether a pod of one GPU gets a part of one."""
        single = self.mig is not None and self.mig.strategy == "single"
        return self.hand_out == "time-slicing" or single or self.parts > 1

    @property
    def gpu_memory(self) -> Memory:
        """The memory of one GPU as its driver will count it: of the table's total, what is not for pods is
        reserved. The headroom is a part of the total."""
        total_mib = max(self.gpu_mib, (self.gpu.memory_mib or 0) // self.parts)
        return Memory(total_mib, total_mib - self.gpu_mib)


class NodeClass(_TableSection, frozen=True):
    """The object of Karpenter's provider that says what a machine is made from."""

    group: LabelKey = "karpenter.k8s.aws"
    kind: Annotated[str, Meta(pattern=r"^[A-Z][A-Za-z0-9]{0,62}$")] = "EC2NodeClass"
    name: Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")] = "default"


class KarpenterSection(_TableSection, frozen=True):
    """What only Karpenter needs."""

    node_class: NodeClass = NodeClass()
    consolidate_after: Duration = "5m"


class GkeSection(_TableSection, frozen=True):
    """What only GKE needs."""

    cluster: Name = "CLUSTER"
    location: Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,40}$")] = "LOCATION"
    max_cpu: Annotated[int, Meta(ge=1, le=1_000_000)] = 1000
    max_memory_gb: Annotated[int, Meta(ge=1, le=10_000_000)] = field(default=10_000, name="maxMemoryGB")


class NodeGroups(_TableSection, frozen=True):
    """All groups of a cluster; `load_node_groups` returns a checked table."""

    groups: Annotated[list[NodeGroup], Meta(min_length=1, max_length=MAX_GROUPS)]
    api_version: str = API_VERSION
    kind: str = KIND
    headroom_percent: Annotated[int, Meta(ge=0, le=90)] = 10
    karpenter: KarpenterSection = KarpenterSection()
    gke: GkeSection = GkeSection()


def load_node_groups(text: bytes) -> NodeGroups:
    """A checked table from YAML or JSON. Raises ConfigError naming the field and the fix."""
    try:
        documents = [document for _, document in json_documents(text, CONFIGURATION)]
        raw: Any = msgspec.json.decode(documents[0]) if len(documents) == 1 else None
    except DocumentError as error:
        raise ConfigError(str(error)) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"cannot be read: {error}") from None
    if not isinstance(raw, dict):
        found = "a value" if len(documents) == 1 else f"{len(documents)} documents"
        raise ConfigError(f"{found}; give one object, with apiVersion: {API_VERSION} and kind: {KIND}")
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if raw.get(key) != expected:
            raise ConfigError(f"{key}: {raw.get(key)!r:.80}; write {expected!r}")
    try:
        table = msgspec.convert(raw, type=NodeGroups)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ConfigError(_with_words(explained(error))) from None
    names: dict[str, int] = {}
    for i, group in enumerate(table.groups):
        if group.name in names:
            raise ConfigError(
                f"groups[{i}].name: {group.name} is also groups[{names[group.name]}]; give another name"
            )
        names[group.name] = i
        for problem in _problems(group):
            raise ConfigError(f"groups[{i}].{problem}")
    return table


def _with_words(problem: str) -> str:
    """The message about a value that is none of a few words, or against a pattern, with what to write."""
    field, _, said = problem.partition(": ")
    example = _EXAMPLES.get(field.removesuffix("[...]").rpartition(".")[2].partition("[")[0])
    if example is not None and "matching regex" in said:
        return f"{field}: not of the expected form; write {example}"
    words = _WORDS.get(field.rpartition(".")[2]) if said.startswith("Invalid enum value") else None
    return f"{problem}; write {', '.join(words[:-1])} or {words[-1]}" if words else problem


def _problems(group: NodeGroup) -> Iterator[str]:
    """What is wrong with a group: the field, the problem, and the fix."""
    row = _MODELS.get(group.gpu.name)
    if row is None or group.model.upper() not in (row.name, *row.aliases):
        alike = [name for name in _MODELS if canonical_model(name).family == group.gpu.family]
        of_vendor = [name for name, row in _MODELS.items() if row.vendor == group.gpu.vendor]
        close = alike or get_close_matches(group.gpu.name, of_vendor, n=_NAMED)
        hint = f"write {' or '.join(close[:_NAMED])}" if close else "see `scheduler-ext inventory`"
        yield f"model: {group.model!r:.80} is no model of the table; {hint}"
        return
    yield from _machine_problems(group, row.name)
    yield from _own_problems(group)
    yield from _memory_problems(group, row)
    if group.max < group.min:
        yield f"max: {group.max} is below min; write at least {group.min}"
    if group.hand_out != "whole" and row.vendor != "nvidia":
        yield f"handOut: {group.hand_out} needs NVIDIA GPUs; write whole"
    if (group.mig is not None) is not (group.hand_out == "mig"):
        fix = "add the layout" if group.mig is None else "remove it, or write handOut: mig"
        yield f"mig: handOut is {group.hand_out}; {fix}"
    if (group.replicas is not None) is not (group.hand_out == "time-slicing"):
        fix = "add the number" if group.replicas is None else "remove it, or write handOut: time-slicing"
        yield f"replicas: handOut is {group.hand_out}; {fix}"
    if group.hand_out == "memory-shares" and not group.gpu_mib:
        yield f"memoryMiB: the memory of {row.name} is not in the table; add it, in MiB"
    if group.mig is not None:
        yield from _layout_problems(group.mig, row.name, geometry_for(row.mig_table))


def _machine_problems(group: NodeGroup, model: str) -> Iterator[str]:
    """Machine types with another model, or another number of GPUs, as far as they are known."""
    for i, name in enumerate(group.instance_types):
        known = next((each for each in INSTANCE_TYPE_ROWS if re.fullmatch(each.pattern, name.lower())), None)
        if known is None:
            continue
        if canonical_model(known.model).name != model:
            yield f"instanceTypes[{i}]: {name} has {known.model}, not {model}; correct one of both"
        gpus = known.gpus(name.lower())
        if gpus is not None and gpus != group.gpus_per_node:
            yield (
                f"gpusPerNode: {group.gpus_per_node}, but {name} (instanceTypes[{i}]) has {gpus}; "
                f"write {gpus}, or name another machine type"
            )


def _own_problems(group: NodeGroup) -> Iterator[str]:
    """Labels and taints of the group that the command states itself."""
    for label in _OWN_LABELS:
        if label in group.labels:
            yield f"labels: {label} follows from model and handOut; remove it"
    known: dict[tuple[str, str], int] = {}
    for i, taint in enumerate(group.taints):
        if taint.key in _OWN_TAINTS:
            yield f"taints[{i}].key: {taint.key} does not stay, and every group has it; remove it"
        first = known.setdefault((taint.key, taint.effect), i)
        if first != i:
            yield f"taints[{i}]: taints[{first}] has this key and effect already; remove one of both"


def _memory_problems(group: NodeGroup, row: ModelRow) -> Iterator[str]:
    """Memory of one GPU that no GPU of these machines has."""
    cut = [(i, name, part) for i, name in enumerate(group.instance_types) if (part := _fraction(name)) > 1]
    for i, name, _ in cut if group.hand_out == "mig" else ():
        yield f"instanceTypes[{i}]: {name} has a part of a GPU, without MIG; name another machine type"
    if group.hand_out == "memory-shares" and cut and group.memory_mi_b is None:
        i, name, _ = cut[0]
        yield f"memoryMiB: {name} (instanceTypes[{i}]) has a part of a GPU; add its memory, in MiB"
    most = (row.memory_mib or _MIB_AT_MOST) // max([1, *(part for _, _, part in cut)])
    if group.memory_mi_b is not None and group.memory_mi_b > most * _SAME_MEMORY:
        yield f"memoryMiB: {group.memory_mi_b}, but one GPU has {most}; write the memory of one GPU, in MiB"


def _fraction(machine: str) -> int:
    """n where a machine type has 1/n of a GPU; 1 for others, and where it is not known."""
    known = (each.fraction for each in INSTANCE_TYPE_ROWS if re.fullmatch(each.pattern, machine.lower()))
    return next(known, 1)


def _layout_problems(layout: MigLayout, model: str, geometry: Geometry | None) -> Iterator[str]:
    if geometry is None:
        yield f"handOut: {model} has no MIG; choose another way"
        return
    if not layout.profiles:
        yield "mig.profiles: empty; name a profile and the number of its instances on each GPU"
    if layout.strategy == "single" and len(layout.profiles) > 1:
        yield "mig.strategy: single takes one profile; write mixed, or keep one"
    instances = []
    for name, count in layout.profiles.items():
        try:
            profile = parse_profile(name)
        except ValueError as error:
            yield f"mig.profiles: {error}"
            return
        if geometry.profile(profile) is None:
            there = ", ".join(each.name for each in geometry.profiles)
            yield f"mig.profiles.{name}: {model} has no such profile; it has {there}"
            return
        instances += [profile] * count
    if not _placeable(geometry, instances, ()):
        yield f"mig.profiles: so many instances do not fit on one {model}; reduce them"


def _placeable(geometry: Geometry, wanted: Sequence[str], placed: tuple[tuple[str, int], ...]) -> bool:
    """Whether instances fit beside the placed ones, in some order of their places."""
    if not wanted:
        return True
    first, rest = wanted[0], wanted[1:]
    return any(
        _placeable(geometry, rest, (*placed, (first, start)))
        for start in geometry.creatable_starts(placed, first)
    )
