"""ExtenderConfiguration `config.scheduler-ext.io/v1alpha1`: every setting, its bounds and its default.
`docs/reference/configuration.md` documents each setting; a test compares the two."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.cycle.policy import Policy
from scheduler_ext.core.errors import ConfigError, DocumentError
from scheduler_ext.core.gpu.models import normalise_wish
from scheduler_ext.core.node.node_labels import MAX_VALUE
from scheduler_ext.core.request.resource_names import (
    DEFAULT_DEVICE_CLASSES,
    DEFAULT_SHARE,
    DEFAULT_WHOLE,
    MIG_PREFIX,
    ResourceNames,
)
from scheduler_ext.core.request.wishes import shown
from scheduler_ext.core.scores import DEFAULT_WEIGHTS
from scheduler_ext.wire.decoding import located
from scheduler_ext.wire.documents import json_documents
from scheduler_ext.wire.times import duration_s
from scheduler_ext.wire.yaml_values import CONFIGURATION

API_VERSION = "config.scheduler-ext.io/v1alpha1"
KIND = "ExtenderConfiguration"

# A DNS subdomain, as of Kubernetes' object names.
DeviceClassName = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
ResourceName = Annotated[
    str, Meta(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
]


class _Section(Struct, rename="camel", forbid_unknown_fields=True):
    """Base of all sections: an unknown key is an error."""


class FilterSection(_Section):
    max_candidates: Annotated[int, Meta(ge=0, le=1_000_000)] = 100


class MemorySection(_Section):
    headroom_percent: Annotated[int, Meta(ge=0, le=90)] = 10


class InventorySection(_Section):
    stale_after: str = "150s"
    missing_after: str = "300s"
    unreported: Literal["allow", "refuse"] = "refuse"
    label_nodes: bool = True


class ScoreSection(_Section):
    weights: dict[str, float] = field(default_factory=dict)
    strategy: Literal["fragmentation", "binpack", "spread"] = "fragmentation"
    high_priority: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 1000


class ResourcesSection(_Section):
    whole_gpu: Annotated[list[ResourceName], Meta(min_length=1, max_length=64)] = field(
        default_factory=lambda: list(DEFAULT_WHOLE)
    )
    memory_share: ResourceName = DEFAULT_SHARE
    device_classes: Annotated[list[DeviceClassName], Meta(min_length=0, max_length=64)] = field(
        default_factory=lambda: list(DEFAULT_DEVICE_CLASSES)
    )


class PreemptionSection(_Section):
    empty_victims: bool = False


class BindSection(_Section):
    enabled: bool = False
    deadline: str = "4s"


class ServerSection(_Section):
    max_body_bytes: Annotated[int, Meta(ge=1024, le=2**30)] = 64 * 2**20
    read_timeout: str = "5s"
    write_timeout: str = "5s"
    decision_deadline: str = "2s"
    graceful_timeout: str = "10s"


class InspectionSection(_Section):
    decisions: Annotated[int, Meta(ge=0, le=1_000_000)] = 5000
    decision_bytes: Annotated[int, Meta(ge=2**16, le=2**32)] = 32 * 2**20
    hide_other_namespaces: bool = True


class CostSection(_Section):
    per_unit: Annotated[float, Meta(gt=0, le=1_000_000)] = 1.0
    currency: Annotated[str, Meta(min_length=1, max_length=16)] = "USD"
    idle_after: str = "30m"


class DraSection(_Section):
    device_taints: bool = False


class MetricsSection(_Section):
    detail: Literal["cluster", "node", "device"] = "node"
    waiting_pods: Annotated[int, Meta(ge=0, le=1000)] = 50


class Configuration(_Section):
    """The whole configuration; `load_config` returns a checked one."""

    api_version: str = API_VERSION
    kind: str = KIND
    filter: FilterSection = field(default_factory=FilterSection)
    memory: MemorySection = field(default_factory=MemorySection)
    inventory: InventorySection = field(default_factory=InventorySection)
    score: ScoreSection = field(default_factory=ScoreSection)
    resources: ResourcesSection = field(default_factory=ResourcesSection)
    scheduler_names: Annotated[list[str], Meta(min_length=1, max_length=64)] = field(
        default_factory=lambda: ["gpu-scheduler"]
    )
    preemption: PreemptionSection = field(default_factory=PreemptionSection)
    bind: BindSection = field(default_factory=BindSection)
    server: ServerSection = field(default_factory=ServerSection)
    inspection: InspectionSection = field(default_factory=InspectionSection)
    metrics: MetricsSection = field(default_factory=MetricsSection)
    dra: DraSection = field(default_factory=DraSection)
    cost: CostSection = field(default_factory=CostSection)
    values: dict[str, Any] = field(default_factory=dict)

    def policy(self) -> Policy:
        """The settings of a decision."""
        return Policy(
            weights={**DEFAULT_WEIGHTS, **self.score.weights},
            strategy=self.score.strategy,
            high_priority=self.score.high_priority,
            max_candidates=self.filter.max_candidates,
            values={normalise_wish(model): value for model, value in self.values.items()},
        )

    def inventory_ages_s(self) -> tuple[float, float]:
        """The ages in seconds at which a report becomes stale, and at which it counts as missing."""
        return (
            duration_s("inventory.staleAfter", self.inventory.stale_after, 1, 86400),
            duration_s("inventory.missingAfter", self.inventory.missing_after, 1, 86400),
        )

    def idle_after_s(self) -> float:
        """The time without computing after which what a pod holds counts as idle."""
        return duration_s("cost.idleAfter", self.cost.idle_after, 1, 30 * 86400)

    def allows_unreported(self) -> bool:
        """Whether nodes without a fresh report take pods by their allocatable."""
        return self.inventory.unreported == "allow"

    def resource_names(self) -> ResourceNames:
        """The resources that stand for GPUs."""
        asked = self.resources
        return ResourceNames(tuple(asked.whole_gpu), asked.memory_share, tuple(asked.device_classes))

    def sizing(self) -> Sizing:
        """The settings of decisions about nodes."""
        return Sizing(self.policy(), self.resource_names(), self.memory.headroom_percent)


def load_config(text: bytes) -> Configuration:
    """A checked configuration from YAML or JSON. Raises ConfigError naming the key and the fix."""
    try:
        documents = [document for _, document in json_documents(text, CONFIGURATION)]
        raw = msgspec.json.decode(documents[0]) if len(documents) == 1 else None
    except DocumentError as error:
        raise ConfigError(str(error)) from None
    except (msgspec.DecodeError, RecursionError) as error:
        # For a number that no field could hold.
        raise ConfigError(f"cannot be read: {_explained(error)}") from None
    if len(documents) > 1:
        raise ConfigError(f"{len(documents)} documents in it; give one")
    if not isinstance(raw, dict):
        raise ConfigError(f"empty or no mapping; start with apiVersion: {API_VERSION} and kind: {KIND}")
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if raw.get(key) != expected:
            raise ConfigError(f"{key}: {raw.get(key)!r:.80}; this release reads {expected!r}")
    try:
        config = msgspec.convert(raw, type=Configuration)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ConfigError(_explained(error)) from None
    check(config)
    return config


def check(config: Configuration) -> None:
    """Checks beyond the types. Raises ConfigError naming the key."""
    _check_values(config.values)
    for name, weight in sorted(config.score.weights.items()):
        if name not in DEFAULT_WEIGHTS:
            raise ConfigError(f"score.weights.{name}: no such score; there are {', '.join(DEFAULT_WEIGHTS)}")
        if not 0 <= weight <= 1000:
            raise ConfigError(f"score.weights.{name}: {weight:g} is outside 0 to 1000")
    if not any(config.policy().weights.values()):
        raise ConfigError("score.weights: all are 0; leave at least one above, or every node is equal")
    share, whole = config.resources.memory_share, config.resources.whole_gpu
    if share in whole:
        raise ConfigError(f"resources.memoryShare: {share} is in wholeGpu too; keep one")
    for name in (*whole, share):
        if name.startswith(MIG_PREFIX):
            raise ConfigError(
                f"resources: {name} is a MIG resource, which is known by its own name; remove it"
            )
    stale, missing = config.inventory_ages_s()
    if missing <= stale:
        raise ConfigError("inventory.missingAfter: must be later than staleAfter")
    config.idle_after_s()
    if not config.cost.currency.isprintable():
        raise ConfigError("cost.currency: has control characters; write a name such as EUR")
    duration_s("server.readTimeout", config.server.read_timeout, 0.1, 300)
    duration_s("server.writeTimeout", config.server.write_timeout, 0.1, 300)
    duration_s("server.decisionDeadline", config.server.decision_deadline, 0.01, 60)
    duration_s("server.gracefulTimeout", config.server.graceful_timeout, 0.5, 300)
    duration_s("bind.deadline", config.bind.deadline, 0.1, 60)


def _check_values(values: Mapping[str, Any]) -> None:
    named: dict[str, str] = {}
    for text, value in sorted(values.items()):
        try:
            model = normalise_wish(text)
        except ValueError as error:
            raise ConfigError(f"values.{text:.80}: {error}") from None
        if model in named:
            raise ConfigError(f"values.{text}: the same model as values.{named[model]}; keep one")
        named[model] = text
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(
                f"values.{text}: {shown(str(value))} is no number; write US dollars per hour, such as 2.5"
            )
        if not 0 < value <= MAX_VALUE:
            raise ConfigError(f"values.{text}: {value:g} must be above 0 and at most {MAX_VALUE:,.0f}")


def _explained(error: Exception) -> str:
    """msgspec's message with the key first: `server.maxBodyBytes: Expected `int` >= 1024`."""
    key, problem = located(error)
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", problem):
        where = ".".join(filter(None, (key, unknown[1])))
        return f"{where}: unknown key; see docs/reference/configuration.md"
    return f"{key}: {problem}" if key else problem
