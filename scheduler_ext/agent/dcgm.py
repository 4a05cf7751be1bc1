"""Samples from an NVIDIA DCGM exporter that runs on the node anyway. It also counts what MIG instances do,
which NVML does not. Names and labels: dcgm-exporter, etc/default-counters.csv."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPException
from ipaddress import IPv6Address
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from prometheus_client.parser import text_string_to_metric_families

from scheduler_ext.agent.node_reading import DeviceReading, InstanceReading, NodeReading, Samples
from scheduler_ext.agent.nvml import throttle_words
from scheduler_ext.background import Background

log = logging.getLogger(__name__)

# Exporters collect every 30 s by default.
_EVERY_S = 15.0
_TIMEOUT_S = 1.0
_MAX_BYTES, _PART_BYTES = 8 * 2**20, 2**16
_UTILIZATION, _ENGINE_ACTIVE = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
_CODING = ("DCGM_FI_DEV_ENC_UTIL", "DCGM_FI_DEV_DEC_UTIL")
# The name before R535 comes second.
_REASONS = ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS")
# A GPU by its UUID, or an instance of it by the number of its GPU instance.
_Key = tuple[str, int | None]


class _Scrape(Background):
    """A request in a thread of its own: no time limit of a socket holds for the lookup of a name, or for a
    head that comes in drops. Both `answer` and `problem` are None until it ends."""

    def __init__(self, text: Callable[[], str]) -> None:
        super().__init__("dcgm")
        self._text = text
        self.answer: str | None = None
        self.problem: str | None = None

    def run(self) -> None:
        try:
            self.answer = self._text()
        except (OSError, HTTPException, ValueError) as error:
            self.problem = _reason(error)


class DcgmExporter:
    """One exporter, by the address of its metrics; for one thread."""

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = with_brackets(url)
        # The exporter is on the same node: a proxy leads elsewhere.
        self._client = build_opener(ProxyHandler({}))
        self._clock = clock
        self._read_at = -math.inf
        self._values: Mapping[_Key, Mapping[str, float]] = {}
        self._problem: str | None = None
        self._request: _Scrape | None = None

    def applied(self, reading: NodeReading) -> NodeReading:
        """The reading with the exporter's samples in place of others, for the GPUs that it knows."""
        now = self._clock()
        if now - self._read_at >= _EVERY_S:
            self._read_at = now
            self._values = self._read()
        return replace(reading, devices=tuple(map(self._device, reading.devices)))

    def _read(self) -> Mapping[_Key, Mapping[str, float]]:
        """Nothing if there is no usable answer: NVML's samples stay."""
        try:
            values = _parsed(self._in_time())
        except (OSError, ValueError) as error:
            problem = _reason(error)
            if problem != self._problem:
                log.warning("%s: no samples from the DCGM exporter, using NVML's: %s", self._url, problem)
            self._problem = problem
            return {}
        if self._problem is not None:
            log.info("%s: the DCGM exporter answers again", self._url)
        self._problem = None
        return values

    def _in_time(self) -> str:
        """The metrics, within the time limit. Raises OSError."""
        if self._request is not None and self._request.is_alive:
            raise TimeoutError("the last request has not ended yet")
        request = self._request = _Scrape(self._text)
        request.start()
        request.join(_TIMEOUT_S)
        if request.answer is None:
            raise OSError(request.problem or f"the answer takes longer than {_TIMEOUT_S:g} s")
        # It is megabytes on a large node.
        self._request = None
        return request.answer

    def _text(self) -> str:
        """The metrics. Raises OSError, HTTPException or ValueError, also for one too slow or too large."""
        until, size = time.monotonic() + _TIMEOUT_S, 0
        parts = []
        with self._client.open(self._url, timeout=_TIMEOUT_S) as answer:
            while part := answer.read1(_PART_BYTES):
                parts.append(part)
                size += len(part)
                if size > _MAX_BYTES:
                    raise ValueError(f"more than {_MAX_BYTES} bytes")
                if time.monotonic() > until:
                    raise TimeoutError(f"the answer takes longer than {_TIMEOUT_S:g} s")
        return b"".join(parts).decode()

    def _device(self, device: DeviceReading) -> DeviceReading:
        if device.faults:
            return device
        instances = tuple(self._instance(device.uuid, each) for each in device.instances)
        values = self._values.get((device.uuid, None))
        if values is None:
            return replace(device, instances=instances)
        samples = _samples(values, device.samples)
        if device.mig_enabled:
            # The instances compute.
            samples = replace(samples, utilization_percent=None, computing=None)
        return replace(device, samples=samples, instances=instances)

    def _instance(self, uuid: str, instance: InstanceReading) -> InstanceReading:
        values = self._values.get((uuid, instance.gpu_instance_id), {})
        if instance.gpu_instance_id is None or _ENGINE_ACTIVE not in values:
            return instance
        active = values[_ENGINE_ACTIVE]
        samples = Samples(utilization_percent=_percent(active * 100), computing=active > 0)
        return replace(instance, samples=samples)


def _reason(error: Exception) -> str:
    return str(error.reason if isinstance(error, URLError) else error) or type(error).__name__


def with_brackets(url: str) -> str:
    """The address of an exporter, with the brackets that a URL has around an address of IPv6 (RFC 3986,
    3.2.2). Kubernetes gives the address of a host without them, so manifests cannot add them for IPv6 alone.
    Of `fd00::7:9400`, the last part is the port."""
    scheme, _, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    host, _, port = place.rpartition(":")
    for address, after in ((host, f":{port}" if port.isdecimal() else None), (place, "")):
        if after is not None and ":" in address:
            with suppress(ValueError):
                return f"{scheme}://[{IPv6Address(address)}]{after}{slash}{path}"
    return url


def _parsed(text: str) -> dict[_Key, dict[str, float]]:
    """Finite values by name, of each GPU and instance. Raises ValueError for another format."""
    found: dict[_Key, dict[str, float]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                number = sample.labels.get("GPU_I_ID", "")
                key = sample.labels.get("UUID", ""), int(number) if number.isdecimal() else None
                if sample.name.startswith("DCGM_FI_") and key[0] and math.isfinite(sample.value):
                    found.setdefault(key, {})[sample.name] = sample.value
    except (ValueError, IndexError) as error:
        # The parser has both, some without a text.
        raise ValueError(f"not in Prometheus' text format: {str(error) or type(error).__name__}") from error
    return found


def _samples(values: Mapping[str, float], before: Samples) -> Samples:
    """The exporter's values, or those before where it has none."""
    percent = values.get(_UTILIZATION)
    if percent is None and _ENGINE_ACTIVE in values:
        percent = values[_ENGINE_ACTIVE] * 100
    memory, celsius, mhz = (
        values.get(f"DCGM_FI_DEV_{name}") for name in ("MEM_COPY_UTIL", "GPU_TEMP", "SM_CLOCK")
    )
    reasons = next((values[name] for name in _REASONS if name in values), None)
    computing = before.computing
    if percent is not None:
        # NVML is read more often: it may have seen work between two samples of the exporter.
        computing = percent > 0 or any(values.get(name, 0) > 0 for name in _CODING) or bool(before.computing)
    return Samples(
        utilization_percent=before.utilization_percent if percent is None else _percent(percent),
        memory_utilization_percent=before.memory_utilization_percent if memory is None else _percent(memory),
        power_watts=values.get("DCGM_FI_DEV_POWER_USAGE", before.power_watts),
        temperature_celsius=before.temperature_celsius if celsius is None else round(celsius),
        sm_clock_mhz=before.sm_clock_mhz if mhz is None else round(mhz),
        throttle_reasons=before.throttle_reasons if reasons is None else throttle_words(int(reasons)),
        computing=computing,
        busy_pids=before.busy_pids,
    )


def _percent(value: float) -> int:
    return min(100, max(0, round(value)))
