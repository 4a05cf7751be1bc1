"""The metrics about the value of GPUs per hour, by model and by namespace."""

import time
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler_ext.features.cost.cost_report import ClusterValueCache
from scheduler_ext.server.metrics.namespaces import OTHERS, named
from scheduler_ext.sources.source_status import Watched
from scheduler_ext.views.value_account import GpuKind, ValueAccount, all_of
from scheduler_ext.wire.config import Configuration

_STATES = ("allocated", "free", "stranded", "unavailable")


class ValueMetrics(Collector):
    """Computes the values again only for nodes that changed."""

    def __init__(
        self, source: Watched, config: Configuration, wall_time: Callable[[], float] = time.time
    ) -> None:
        self._source = source
        self._wall_time = wall_time
        self._values = ClusterValueCache(config)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        snapshot = self._source.snapshot
        models: Mapping[GpuKind, ValueAccount] = {}
        namespaces: dict[str, ValueAccount] = {}
        if snapshot is not None:
            status = self._source.status()
            found = self._values.of(snapshot, status.readings, status.facts, self._wall_time())
            models = found.models
            namespaces = {name: all_of(kinds.values()) for name, kinds in found.namespaces.items()}
        yield from _by_model(models)
        yield from _by_namespace(namespaces)


def _by_model(kinds: Mapping[GpuKind, ValueAccount]) -> Iterator[GaugeMetricFamily]:
    products: dict[str, ValueAccount] = {}
    for kind, account in kinds.items():
        products[kind.product] = all_of((products.get(kind.product, ValueAccount()), account))
    family = GaugeMetricFamily(
        "gpu_extender_gpus_value",
        "Value of GPUs per hour by state: allocated, free, stranded (free, but no future pod can use it) or "
        "unavailable; together they are the value of all GPUs.",
        labels=("modelName", "state"),
    )
    for product, account in sorted(products.items()):
        for state in _STATES:
            family.add_metric((product, state), getattr(account, state))
    yield family
    for name, what in (
        ("idle", "The part of the allocated value per hour that computed nothing for idle.after."),
        (
            "unmeasured",
            "The part of the allocated value per hour whose last work is in no fresh report.",
        ),
    ):
        family = GaugeMetricFamily(f"gpu_extender_gpus_{name}_value", what, labels=("modelName",))
        for product, account in sorted(products.items()):
            family.add_metric((product,), getattr(account, name))
        yield family


def _by_namespace(namespaces: Mapping[str, ValueAccount]) -> Iterator[GaugeMetricFamily]:
    kept = named(sorted(namespaces, key=lambda name: (-namespaces[name].allocated, name)))
    for name, what in (
        (
            "allocated",
            (
                "Value per hour of what the pods of a namespace hold. Beyond 1,000 namespaces the smallest "
                "are combined as _others."
            ),
        ),
        ("idle", "The part of it that computed nothing for idle.after."),
    ):
        family = GaugeMetricFamily(f"gpu_extender_namespace_{name}_value", what, labels=("namespace",))
        sums: dict[str, float] = {}
        values = {each: getattr(account, name) for each, account in namespaces.items()}
        for namespace, value in values.items():
            shown = kept.get(namespace, OTHERS)
            sums[shown] = sums.get(shown, 0.0) + value
        for namespace, value in sorted(sums.items()):
            family.add_metric((namespace,), value)
        yield family
