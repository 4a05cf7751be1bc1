"""The metrics about the activity of GPUs, with the labels of those about their memory. The text of a node is
built again with each of its reports."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from statistics import fmean
from typing import NamedTuple

from scheduler_ext.core.gpu.readings import THROTTLE_REASONS, Readings
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.server.metrics.gpu_metrics import Detail, labels_of, visible
from scheduler_ext.sources.source_status import Watched

# The values of one GPU, several of a node, or all of a cluster.
_Series = tuple[Mapping[str, str], Sequence[Readings]]


class ReadingFamily(NamedTuple):
    """A gauge of a field of Readings, times `scale`; `total` makes one value of several GPUs' values. Without
    it, only single GPUs have the gauge."""

    name: str
    what: str
    value: Callable[[Readings], float | None]
    scale: float
    total: Callable[[Iterable[float]], float] | None


FAMILIES = (
    ReadingFamily(
        "gpu_extender_device_utilization_ratio",
        "How much of the time GPUs computed, 0 to 1: the mean of about a minute; of several GPUs, their "
        "mean.",
        attrgetter("utilization_percent"),
        0.01,
        fmean,
    ),
    ReadingFamily(
        "gpu_extender_device_memory_utilization_ratio",
        "How much of the time memory of GPUs was read or written, 0 to 1; of several GPUs, their mean.",
        attrgetter("memory_utilization_percent"),
        0.01,
        fmean,
    ),
    ReadingFamily(
        "gpu_extender_device_power_watts",
        "Power that GPUs draw: the mean of about a minute; of several GPUs, their sum.",
        attrgetter("power_watts"),
        1,
        sum,
    ),
    ReadingFamily(
        "gpu_extender_device_temperature_celsius",
        "Temperature of GPUs; of several, the highest.",
        attrgetter("temperature_celsius"),
        1,
        max,
    ),
    ReadingFamily(
        "gpu_extender_device_sm_clock_hertz",
        "Clock of the multiprocessors; with metrics.detail device only.",
        attrgetter("sm_clock_mhz"),
        1e6,
        None,
    ),
    ReadingFamily(
        "gpu_extender_device_idle_seconds",
        "Time since anything last computed on the GPU; with metrics.detail device only.",
        attrgetter("idle_s"),
        1,
        None,
    ),
)
_THROTTLED = "gpu_extender_device_throttled"
_ERRORS = "gpu_extender_device_xid_errors_total"
_HEADS = (
    *((family.name, family.what, "gauge") for family in FAMILIES),
    (
        _THROTTLED,
        (
            "GPUs whose clocks are lower than they could be, by the reason, Other for one that only a newer "
            "agent knows; no series for 0."
        ),
        "gauge",
    ),
    (
        _ERRORS,
        (
            "XID errors since the node booted, by their number; no series for 0, and none with "
            "metrics.detail cluster."
        ),
        "counter",
    ),
)


class _ReadingLines(NamedTuple):
    """The sources of a node's lines, the lines of each of _HEADS, and the GPUs by model."""

    readings: Sequence[Readings]
    info: NodeInfo
    lines: tuple[bytes, ...]
    models: Mapping[str, Sequence[Readings]]


class ReadingText:
    """Renders FAMILIES, throttling and errors, of nodes with a fresh report; for one thread at a time."""

    def __init__(self, source: Watched, detail: Detail) -> None:
        self._source = source
        self._detail: Detail = detail
        self._nodes: dict[str, _ReadingLines] = {}

    def render(self) -> bytes:
        """The exposition text."""
        snapshot = self._source.snapshot
        return b"" if snapshot is None else b"".join(self._families(snapshot))

    def _families(self, snapshot: Snapshot) -> Iterator[bytes]:
        self._nodes = dict(self._followed(snapshot))
        lines = [text.lines for text in self._nodes.values()]
        if self._detail == "cluster":
            models: dict[str, list[Readings]] = {}
            for text in self._nodes.values():
                for model, readings in text.models.items():
                    models.setdefault(model, []).extend(readings)
            *gauges, _ = _lines([({"modelName": model}, found) for model, found in sorted(models.items())])
            # A sum of counters decreases with each node that is gone, which looks like a reset.
            lines = [(*gauges, b"")]
        for number, (name, what, kind) in enumerate(_HEADS):
            yield f"# HELP {name} {what}\n# TYPE {name} {kind}\n".encode()
            yield from (each[number] for each in lines)

    def _followed(self, snapshot: Snapshot) -> Iterator[tuple[str, _ReadingLines]]:
        for name, readings in self._source.status().readings.items():
            node = snapshot.nodes.get(name)
            if node is None or node.info.report is None or node.info.freshness != "Fresh":
                continue
            text = self._nodes.get(name)
            if text is None or text.readings is not readings or text.info is not node.info:
                text = self._text(node.info, readings)
            yield name, text

    def _text(self, info: NodeInfo, readings: Sequence[Readings]) -> _ReadingLines:
        devices = {device.uuid: device for device in info.devices}
        known = [(devices[did.uuid], did) for did in readings if did.uuid in devices]
        models: dict[str, list[Readings]] = {}
        for device, did in known:
            models.setdefault(device.product, []).append(did)
        series: list[_Series] = []
        if self._detail == "device":
            series = [
                (
                    {
                        "UUID": device.uuid,
                        "gpu": str(device.index),
                        "modelName": device.product,
                        "hostname": info.name,
                    },
                    [did],
                )
                for device, did in known
            ]
        elif self._detail == "node":
            series = [({"hostname": info.name, "modelName": model}, found) for model, found in models.items()]
        return _ReadingLines(readings, info, _lines(series), models)


def _lines(series: Sequence[_Series]) -> tuple[bytes, ...]:
    """The lines of each of _HEADS."""
    texts = [
        *("".join(_values(family, series)) for family in FAMILIES),
        "".join(_counted(_THROTTLED, "reason", series, _reasons)),
        "".join(_counted(_ERRORS, "xid", series, _errors)),
    ]
    return tuple(visible(text.encode()) for text in texts)


def _values(family: ReadingFamily, series: Sequence[_Series]) -> Iterator[str]:
    for labels, readings in series:
        values = [value for did in readings if (value := family.value(did)) is not None]
        if family.total is None and "UUID" not in labels:
            continue
        if values:
            value = (family.total or sum)(values) * family.scale
            yield f"{family.name}{labels_of(**labels)} {value:.10g}\n"


def _counted(
    name: str,
    label: str,
    series: Sequence[_Series],
    counts: Callable[[Readings], Iterable[tuple[str, int]]],
) -> Iterator[str]:
    for labels, readings in series:
        total: Counter[str] = Counter()
        for did in readings:
            for key, count in counts(did):
                total[key] += count
        for key, count in sorted(total.items()):
            yield f"{name}{labels_of(**labels, **{label: key})} {count}\n"


def _reasons(did: Readings) -> Iterator[tuple[str, int]]:
    # Those that only a newer agent knows are one series.
    known = {reason if reason in THROTTLE_REASONS else "Other" for reason in did.throttle_reasons}
    return ((reason, 1) for reason in known)


def _errors(did: Readings) -> Iterator[tuple[str, int]]:
    return ((str(xid), count) for xid, count in did.xids)
