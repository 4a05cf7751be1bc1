"""ExtenderConfiguration `config.scheduler-ext.io/v1alpha1`: the settings of the kernel with their bounds and
defaults, and the place for those of features. `config/default.yaml` says what each setting means."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, field

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.errors import ConfigError, DocumentError
from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX
from scheduler_ext.core.gpu.models import normalise_model
from scheduler_ext.core.node.node_labels import MAX_VALUE
from scheduler_ext.core.request.constraints import shown
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.request import InvalidRequest
from scheduler_ext.core.request.resource_names import (
    DEFAULT_DEVICE_CLASSES,
    DEFAULT_SHARE,
    DEFAULT_WHOLE,
    ResourceNames,
)
from scheduler_ext.core.scores import DEFAULT_WEIGHTS
from scheduler_ext.feature import installed
from scheduler_ext.wire import kube
from scheduler_ext.wire.decoding import located
from scheduler_ext.wire.documents import json_documents
from scheduler_ext.wire.pod.pod_request import pod_request
from scheduler_ext.wire.times import DURATION, duration_s
from scheduler_ext.wire.yaml_values import CONFIGURATION

API_VERSION = "config.scheduler-ext.io/v1alpha1"
KIND = "ExtenderConfiguration"

_S = TypeVar("_S", bound="Section")
# A DNS subdomain, as of Kubernetes' object names.
DeviceClassName = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
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


class Section(Struct, rename="camel", forbid_unknown_fields=True):
    """Base of all sections, those of features too: an unknown key is an error. `key` is the place of a
    section in a file, such as `idle.reclaim`; `bounds` has the least and most seconds of its durations."""

    key: ClassVar[str] = ""
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {}

    def sections(self) -> "Iterator[Section]":
        """This section and those in it."""
        yield self
        for name in self.__struct_fields__:
            if isinstance(inner := getattr(self, name), Section):
                yield from inner.sections()

    def key_of(self, name: str) -> str:
        """The key of a setting by its name in the program."""
        written = self.__struct_encode_fields__[self.__struct_fields__.index(name)]
        return f"{self.key}.{written}"

    def duration_s(self, name: str) -> float:
        """A duration of `bounds` in seconds. Raises ConfigError naming the key."""
        return duration_s(self.key_of(name), getattr(self, name), *self.bounds[name])

    def check(self, config: "Configuration") -> None:
        """What the types cannot say, in a configuration with this section. Raises ConfigError naming the
        key."""


class FilterSection(Section):
    max_candidates: Annotated[int, Meta(ge=0, le=1_000_000)] = 100


class MemorySection(Section):
    headroom_percent: Annotated[int, Meta(ge=0, le=90)] = 10


class InventorySection(Section):
    key = "inventory"
    bounds: ClassVar = {"stale_after": (1, 86400), "missing_after": (1, 86400)}
    stale_after: Duration = "150s"
    missing_after: Duration = "300s"
    unreported: Literal["allow", "refuse"] = "refuse"
    label_nodes: bool = True

    def check(self, config: "Configuration") -> None:
        if self.duration_s("missing_after") <= self.duration_s("stale_after"):
            raise ConfigError("inventory.missingAfter: must be later than staleAfter")


class ScoreSection(Section):
    weights: dict[str, Weight] = field(default_factory=dict)
    strategy: Literal["fragmentation", "binpack", "spread"] = "fragmentation"
    high_priority: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 1000

    def check(self, config: "Configuration") -> None:
        for name, weight in sorted(self.weights.items()):
            if name not in DEFAULT_WEIGHTS:
                known = ", ".join(DEFAULT_WEIGHTS)
                raise ConfigError(f"score.weights.{name}: no such score; there are {known}")
            if not 0 <= weight <= 1000:
                raise ConfigError(f"score.weights.{name}: {weight:g} is outside 0 to 1000")
        if not any(config.policy().weights.values()):
            raise ConfigError("score.weights: all are 0; leave at least one above, or every node is equal")


class ResourcesSection(Section):
    whole_gpu: Annotated[list[ResourceName], Meta(min_length=1, max_length=64)] = field(
        default_factory=lambda: list(DEFAULT_WHOLE)
    )
    memory_share: ResourceName = DEFAULT_SHARE
    device_classes: Annotated[list[DeviceClassName], Meta(min_length=0, max_length=64)] = field(
        default_factory=lambda: list(DEFAULT_DEVICE_CLASSES)
    )

    def check(self, config: "Configuration") -> None:
        if self.memory_share in self.whole_gpu:
            raise ConfigError(f"resources.memoryShare: {self.memory_share} is in wholeGpu too; keep one")
        for name in (*self.whole_gpu, self.memory_share):
            if name.startswith(MIG_PREFIX):
                raise ConfigError(
                    f"resources: {name} is a MIG resource, which is known by its own name; remove it"
                )


class PreemptionSection(Section):
    empty_victims: bool = False
    prefer_idle: bool = False


class BindSection(Section):
    key = "bind"
    bounds: ClassVar = {"deadline": (0.1, 60)}
    enabled: bool = False
    deadline: Duration = "4s"


class ServerSection(Section):
    key = "server"
    bounds: ClassVar = {
        "read_timeout": (0.1, 300),
        "write_timeout": (0.1, 300),
        "decision_deadline": (0.01, 60),
        "graceful_timeout": (0.5, 300),
    }
    max_body_bytes: Annotated[int, Meta(ge=1024, le=2**30)] = 64 * 2**20
    read_timeout: Duration = "5s"
    write_timeout: Duration = "5s"
    decision_deadline: Duration = "2s"
    graceful_timeout: Duration = "10s"


class InspectionSection(Section):
    decisions: Annotated[int, Meta(ge=0, le=1_000_000)] = 5000
    decision_bytes: Annotated[int, Meta(ge=2**16, le=2**32)] = 32 * 2**20
    hide_other_namespaces: bool = False


class CostSection(Section):
    per_unit: Annotated[float, Meta(gt=0, le=1_000_000)] = 1.0
    currency: CurrencyName = "USD"

    def check(self, config: "Configuration") -> None:
        if not self.currency.isprintable():
            raise ConfigError("cost.currency: has control characters; write a name such as EUR")


class PodTemplate(Section):
    """A pod template, as in a workload."""

    spec: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)


class MetricsSection(Section):
    detail: Literal["cluster", "node", "device"] = "node"
    waiting_pods: Annotated[int, Meta(ge=0, le=1000)] = 50
    schedulable_replicas: Annotated[dict[WorkloadName, PodTemplate], Meta(max_length=20)] = field(
        default_factory=dict
    )

    def check(self, config: "Configuration") -> None:
        for name in self.schedulable_replicas:
            counted_pod(name, config)


class IdleSection(Section):
    key = "idle"
    bounds: ClassVar = {"after": (1, 7 * 86400)}
    after: Duration = "30m"


class KernelConfiguration(Section):
    """The configuration without the sections of features."""

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
    idle: IdleSection = field(default_factory=IdleSection)
    cost: CostSection = field(default_factory=CostSection)
    values: dict[str, Price] = field(default_factory=dict)


class Configuration(KernelConfiguration):
    """The whole configuration; `load_config` returns a checked one."""

    features: dict[type[Section], Section] = field(default_factory=dict)
    """The sections of features that are not left out."""

    def of(self, section: type[_S]) -> _S:
        """A section of a feature."""
        found = self.features.get(section)
        return found if isinstance(found, section) else section()

    def with_sections(self, *sections: Section) -> "Configuration":
        """The same with these sections of features."""
        return msgspec.structs.replace(self, features=self.features | {type(each): each for each in sections})

    def sections(self) -> Iterator[Section]:
        yield from super().sections()
        for section in self.features.values():
            yield from section.sections()

    def check(self, config: "Configuration") -> None:
        _check_values(self.values)

    def policy(self) -> SchedulingPolicy:
        """The settings of a decision."""
        return SchedulingPolicy(
            weights={**DEFAULT_WEIGHTS, **self.score.weights},
            strategy=self.score.strategy,
            high_priority=self.score.high_priority,
            max_candidates=self.filter.max_candidates,
            values={normalise_model(model): value for model, value in self.values.items()},
        )

    def inventory_ages_s(self) -> tuple[float, float]:
        """The ages in seconds at which a report becomes stale, and at which it counts as missing."""
        return self.inventory.duration_s("stale_after"), self.inventory.duration_s("missing_after")

    def idle_after_s(self) -> float:
        """The time without work after which a pod is idle, in seconds."""
        return self.idle.duration_s("after")

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


@cache
def feature_sections() -> Sequence[type[Section]]:
    """The sections of the installed features."""
    modules = [import_module(feature.settings) for feature in installed() if feature.settings]
    return [section for module in modules for section in module.SECTIONS]


def duration_bounds() -> Mapping[str, tuple[float, float]]:
    """The least and the most seconds of each duration, by its key."""
    config = Configuration().with_sections(*(section() for section in feature_sections()))
    return {
        section.key_of(name): bounds
        for section in config.sections()
        for name, bounds in section.bounds.items()
    }


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
    of_features = {section: _taken(raw, section.key) for section in feature_sections()}
    kernel = _converted(raw, KernelConfiguration)
    config = Configuration(
        **msgspec.structs.asdict(kernel),
        features={
            section: _converted(value, section)
            for section, value in of_features.items()
            if value is not UNSET
        },
    )
    check(config)
    return config


def _taken(document: Any, key: str) -> Any:
    """What a document has at a key, taken out of it; UNSET for nothing."""
    name, _, rest = key.partition(".")
    if not isinstance(document, dict):
        return UNSET
    return _taken(document.get(name), rest) if rest else document.pop(name, UNSET)


def _converted(value: Any, section: type[_S]) -> _S:
    try:
        return msgspec.convert(value, type=section)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ConfigError(_explained(error, section)) from None


def check(config: Configuration) -> None:
    """Checks beyond the types. Raises ConfigError naming the key."""
    for section in config.sections():
        section.check(config)
        for name in section.bounds:
            section.duration_s(name)


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
            model = normalise_model(text)
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


def _explained(error: Exception, section: type[Section] = Section) -> str:
    """msgspec's message with the key first: `server.maxBodyBytes: Expected `int` >= 1024`."""
    inner, problem = located(error)
    key = ".".join(filter(None, (section.key, inner)))
    if "got `bool`" in problem and "off" in get_args(get_type_hints(section).get(inner)):
        return f'{key}: YAML reads off without quotes as false; write "off" with quotes'
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", problem):
        where = ".".join(filter(None, (key, unknown[1])))
        return f"{where}: unknown key; see docs/reference/configuration.md"
    if problem.startswith("Invalid enum value"):
        problem += "; docs/reference/configuration.md has the values"
    return f"{key}: {problem}" if key else problem
