"""ExtenderConfiguration `config.scheduler-ext.io/v1alpha1`: every setting, its bounds and its default.
`config/default.yaml` says what each setting means."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.cycle.policy import Policy
from scheduler_ext.core.errors import ConfigError, DocumentError
from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX
from scheduler_ext.core.gpu.models import normalise_wish
from scheduler_ext.core.node.node_labels import MAX_VALUE
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.request import InvalidRequest
from scheduler_ext.core.request.resource_names import (
    DEFAULT_DEVICE_CLASSES,
    DEFAULT_SHARE,
    DEFAULT_WHOLE,
    ResourceNames,
)
from scheduler_ext.core.request.wishes import shown
from scheduler_ext.core.scores import DEFAULT_WEIGHTS
from scheduler_ext.wire import kube
from scheduler_ext.wire.decoding import located
from scheduler_ext.wire.documents import json_documents
from scheduler_ext.wire.pod.pod_request import pod_request
from scheduler_ext.wire.times import DURATION, duration_s
from scheduler_ext.wire.yaml_values import CONFIGURATION

API_VERSION = "config.scheduler-ext.io/v1alpha1"
KIND = "ExtenderConfiguration"

_WEEK_S = 7 * 86400
# No nomination of a planner keeps its place for longer, whatever is written on the pod.
LONGEST_PLAN_S = 3600.0
# A DNS subdomain, as of Kubernetes' object names.
DeviceClassName = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
NamespaceName = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
WorkloadName = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$")]
ResourceName = Annotated[
    str, Meta(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
]
# For the JSON schema of the Helm chart's values only. `check` refuses the same with words of its own.
Duration = Annotated[str, Meta(extra_json_schema={"pattern": DURATION})]
Weight = Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": 1000})]
Price = Annotated[
    Any, Meta(extra_json_schema={"type": "number", "exclusiveMinimum": 0, "maximum": MAX_VALUE})
]
# Without control characters.
CurrencyName = Annotated[
    str, Meta(min_length=1, max_length=16, extra_json_schema={"pattern": r"^[^\x00-\x1f\x7f-\x9f]+$"})
]
# The least and the most seconds of each duration.
DURATION_BOUNDS: Mapping[str, tuple[float, float]] = {
    "inventory.staleAfter": (1, 86400),
    "inventory.missingAfter": (1, 86400),
    "bind.deadline": (0.1, 60),
    "server.readTimeout": (0.1, 300),
    "server.writeTimeout": (0.1, 300),
    "server.decisionDeadline": (0.01, 60),
    "server.gracefulTimeout": (0.5, 300),
    "autoscaler.placeholders.after": (0, 86400),
    "autoscaler.placeholders.ttl": (10, 86400),
    "nominate.ttl": (5, LONGEST_PLAN_S),
    "nominate.gangs.deadline": (10, 86400),
    "nominate.gangs.keepFor": (60, 86400),
    "idle.after": (1, _WEEK_S),
    "idle.reclaim.minAge": (1, _WEEK_S),
    "idle.reclaim.warnFor": (1, _WEEK_S),
}


class _Section(Struct, rename="camel", forbid_unknown_fields=True):
    """Base of all sections: an unknown key is an error."""


class FilterSection(_Section):
    max_candidates: Annotated[int, Meta(ge=0, le=1_000_000)] = 100


class MemorySection(_Section):
    headroom_percent: Annotated[int, Meta(ge=0, le=90)] = 10


class InventorySection(_Section):
    stale_after: Duration = "150s"
    missing_after: Duration = "300s"
    unreported: Literal["allow", "refuse"] = "refuse"
    label_nodes: bool = True


class ScoreSection(_Section):
    weights: dict[str, Weight] = field(default_factory=dict)
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
    prefer_idle: bool = False


class BindSection(_Section):
    enabled: bool = False
    deadline: Duration = "4s"


class ServerSection(_Section):
    max_body_bytes: Annotated[int, Meta(ge=1024, le=2**30)] = 64 * 2**20
    read_timeout: Duration = "5s"
    write_timeout: Duration = "5s"
    decision_deadline: Duration = "2s"
    graceful_timeout: Duration = "10s"


class InspectionSection(_Section):
    decisions: Annotated[int, Meta(ge=0, le=1_000_000)] = 5000
    decision_bytes: Annotated[int, Meta(ge=2**16, le=2**32)] = 32 * 2**20
    hide_other_namespaces: bool = False


class CostSection(_Section):
    per_unit: Annotated[float, Meta(gt=0, le=1_000_000)] = 1.0
    currency: CurrencyName = "USD"


class DraSection(_Section):
    device_taints: bool = False


class PlaceholdersSection(_Section):
    enabled: bool = False
    namespace: NamespaceName = "gpu-scheduler-placeholders"
    after: Duration = "30s"
    ttl: Duration = "15m"
    most: Annotated[int, Meta(ge=1, le=50)] = 5
    per_hour: Annotated[int, Meta(ge=1, le=1000)] = 20


class AutoscalerSection(_Section):
    placeholders: PlaceholdersSection = field(default_factory=PlaceholdersSection)


class GangsSection(_Section):
    enabled: bool = False
    deadline: Duration = "5m"
    on_deadline: Literal["evict", "hold"] = "evict"
    preempts: bool = False
    keep_for: Duration = "1h"
    keep_percent: Annotated[int, Meta(ge=0, le=100)] = 50


class NominateSection(_Section):
    enabled: bool = True
    ttl: Duration = "30s"
    gangs: GangsSection = field(default_factory=GangsSection)


class QueueSection(_Section):
    run_times: Annotated[int, Meta(ge=0, le=100_000)] = 0


class PodTemplate(_Section):
    """A pod template, as in a workload."""

    spec: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)


class MetricsSection(_Section):
    detail: Literal["cluster", "node", "device"] = "node"
    waiting_pods: Annotated[int, Meta(ge=0, le=1000)] = 50
    schedulable_replicas: Annotated[dict[WorkloadName, PodTemplate], Meta(max_length=20)] = field(
        default_factory=dict
    )


class ReclaimSection(_Section):
    mode: Literal["off", "dry-run", "evict"] = "off"
    min_age: Duration = "1h"
    warn_for: Duration = "15m"
    per_hour: Annotated[int, Meta(ge=1, le=60)] = 4


class IdleSection(_Section):
    after: Duration = "30m"
    reclaim: ReclaimSection = field(default_factory=ReclaimSection)


class Configuration(_Section):
    """The whole configuration; `load_config` returns a checked one."""

    api_version: Annotated[str, Meta(extra_json_schema={"const": API_VERSION})] = API_VERSION
    kind: Annotated[str, Meta(extra_json_schema={"const": KIND})] = KIND
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
    autoscaler: AutoscalerSection = field(default_factory=AutoscalerSection)
    nominate: NominateSection = field(default_factory=NominateSection)
    queue: QueueSection = field(default_factory=QueueSection)
    idle: IdleSection = field(default_factory=IdleSection)
    cost: CostSection = field(default_factory=CostSection)
    values: dict[str, Price] = field(default_factory=dict)

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
        return self.duration_s("inventory.staleAfter"), self.duration_s("inventory.missingAfter")

    def duration_s(self, key: str) -> float:
        """A duration of DURATION_BOUNDS in seconds. Raises ConfigError naming the key."""
        value = msgspec.to_builtins(self)
        for part in key.split("."):
            value = value[part]
        return duration_s(key, value, *DURATION_BOUNDS[key])

    def idle_after_s(self) -> float:
        """The time without work after which a pod is idle, in seconds."""
        return self.duration_s("idle.after")

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
    _check_resources(config)
    if config.nominate.gangs.enabled and not config.nominate.enabled:
        raise ConfigError("nominate.gangs.enabled: needs nominate.enabled: true")
    stale, missing = config.inventory_ages_s()
    if missing <= stale:
        raise ConfigError("inventory.missingAfter: must be later than staleAfter")
    for key in DURATION_BOUNDS:
        config.duration_s(key)
    if not config.cost.currency.isprintable():
        raise ConfigError("cost.currency: has control characters; write a name such as EUR")
    for name in config.metrics.schedulable_replicas:
        counted_pod(name, config)


def _check_resources(config: Configuration) -> None:
    share, whole = config.resources.memory_share, config.resources.whole_gpu
    if share in whole:
        raise ConfigError(f"resources.memoryShare: {share} is in wholeGpu too; keep one")
    for name in (*whole, share):
        if name.startswith(MIG_PREFIX):
            raise ConfigError(
                f"resources: {name} is a MIG resource, which is known by its own name; remove it"
            )


def counted_pod(name: str, config: Configuration) -> kube.Pod:
    """The pod of a template in `metrics.schedulableReplicas`. Raises ConfigError for one that cannot be
    read, or that requests no GPU."""
    key = f"metrics.schedulableReplicas.{name}"
    template = config.metrics.schedulable_replicas[name]
    try:
        # Quantities are decoded from bytes.
        pod = msgspec.json.decode(
            msgspec.json.encode({"metadata": {**template.metadata, "name": name}, "spec": template.spec}),
            type=kube.Pod,
        )
        request = pod_request(pod, config.resource_names())
    except (msgspec.ValidationError, QuantityError) as error:
        raise ConfigError(f"{key}: {_explained(error)}") from None
    if isinstance(request, InvalidRequest):
        raise ConfigError(f"{key}: {request.message}")
    if not request.asks_gpu:
        raise ConfigError(f"{key}: it requests no GPU; add a GPU resource to the limits of a container")
    return pod


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
    if key == "idle.reclaim.mode" and "got `bool`" in problem:
        return 'idle.reclaim.mode: YAML reads off without quotes as false; write "off" with quotes'
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", problem):
        where = ".".join(filter(None, (key, unknown[1])))
        return f"{where}: unknown key; see docs/reference/configuration.md"
    if problem.startswith("Invalid enum value"):
        problem += "; docs/reference/configuration.md has the values"
    return f"{key}: {problem}" if key else problem
