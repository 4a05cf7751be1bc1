"""All GPUs of the node from NVML, reading by reading, across driver restarts, and their XID events."""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

from scheduler_ext.agent import nvml_errors
from scheduler_ext.agent.node_reading import DeviceReading, NodeReading
from scheduler_ext.agent.nvml import OF_NODE, Handle, Nvml, address
from scheduler_ext.agent.nvml_device import TrackedDevice

log = logging.getLogger(__name__)

# An initialisation can take seconds where no other process keeps the driver open.
FIRST_RETRY_S = 5.0
LONGEST_RETRY_S = 60.0
# Bound on the events read at once, so that a failing GPU cannot keep the agent from reporting it.
_MOST_EVENTS_AT_ONCE = 1000


class NvmlSource:
    """Keeps NVML open for as long as it works. For one thread; `now` is a clock in seconds. A GPU that
    fails stays in the readings with a fault, as long as NVML counts it and its UUID was once read, by this
    agent or an earlier one. When the whole driver fails, readings have a `problem` and the last known GPUs,
    and NVML is initialised again, after 5 s and then with growing delays up to a minute."""

    def __init__(
        self,
        library: Path | None = None,
        now: Callable[[], float] = time.monotonic,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        """`beat` is called before each call of the driver."""
        self._nvml = Nvml(library, beat)
        self._now = now
        self._xids = XidEvents(self._nvml)
        self._devices: list[TrackedDevice] = []
        self._count = 0
        self._versions: tuple[str | None, str | None] = (None, None)
        self._gone: nvml_errors.DriverGone | None = None
        self._retry_at = 0.0
        self._delay_s = FIRST_RETRY_S
        self._silent: dict[int, str] = {}

    @property
    def must_restart(self) -> bool:
        """Whether this process has loaded the library of another driver, which only a new process drops."""
        return self._gone is not None and self._gone.must_restart

    def remember(self, devices: Iterable[DeviceReading]) -> None:
        """Add GPUs that an earlier agent has read since the node was booted."""
        known = {each for device in self._devices for each in (device.uuid, device.index)}
        new = [TrackedDevice(device) for device in devices if known.isdisjoint((device.uuid, device.index))]
        self._devices = sorted([*self._devices, *new], key=attrgetter("index"))

    def read(self) -> NodeReading:
        """The node now; never raises for an error of NVML."""
        if self._gone is not None and self._now() < self._retry_at:
            return self._without_driver(self._gone)
        try:
            if self._nvml.is_open:
                try:
                    return self._sweep()
                except nvml_errors.Uninitialized as forgotten:
                    log.warning("%s; initialising it again", forgotten)
                    self._release(str(forgotten))
            return self._opened_sweep()
        except nvml_errors.DriverGone as gone:
            self._release(str(gone))
            self._gone = gone
            self._retry_at = self._now() + self._delay_s
            self._delay_s = min(2 * self._delay_s, LONGEST_RETRY_S)
            return self._without_driver(gone)

    def close(self) -> None:
        """Close NVML; a later reading would initialise it again."""
        self._release(nvml_errors.CANNOT_BE_READ)

    def _opened_sweep(self) -> NodeReading:
        self._nvml.open()
        cuda = self._nvml.get("nvmlSystemGetCudaDriverVersion_v2", absent=OF_NODE)
        self._versions = (
            self._nvml.get("nvmlSystemGetDriverVersion", absent=OF_NODE),
            f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        )
        reading = self._sweep()
        self._gone = None
        self._delay_s = FIRST_RETRY_S
        return reading

    def _sweep(self) -> NodeReading:
        try:
            count = int(self._nvml.ask("nvmlDeviceGetCount"))
        except OF_NODE as error:
            raise nvml_errors.DriverGone(f"{nvml_errors.NOT_COUNTED}{error}") from error
        if count != self._count or any(device.handle is None for device in self._devices) or self._silent:
            self._find_devices(count)
        self._xids.collect(self._devices)
        read = [device.read(self._nvml) for device in self._devices]
        silent = None if read else next(iter(self._silent.values()), None)
        # A node whose GPUs cannot be read is not a node without GPUs.
        problem = None if silent is None else f"{nvml_errors.NO_UUID}{silent}"
        return NodeReading(tuple(map(self._with_xids, read)), *self._versions, problem=problem)

    def _find_devices(self, count: int) -> None:
        by_uuid = {device.uuid: device for device in self._devices}
        by_index = {device.index: device for device in self._devices}
        found: dict[int, TrackedDevice] = {}
        failed: dict[int, str] = {}
        for index in range(count):
            try:
                handle = self._nvml.ask("nvmlDeviceGetHandleByIndex", index)
                uuid = str(self._nvml.ask("nvmlDeviceGetUUID", handle))
            except OF_NODE as error:
                failed[index] = (
                    str(error) if isinstance(error, nvml_errors.DeviceLost) else nvml_errors.CANNOT_BE_READ
                )
                continue
            found[index] = by_uuid.get(uuid) or TrackedDevice(DeviceReading(uuid, index, total_mib=0))
            found[index].index, found[index].handle = index, handle
        seen = {device.uuid for device in found.values()}
        silent = {}
        for index, fault in failed.items():
            if (known := by_index.get(index)) is None or known.uuid in seen:
                silent[index] = fault
            else:
                known.forget(fault)
                found[index] = known
        for index in silent.keys() - self._silent.keys():
            log.warning("GPU %d has never returned its UUID and is not reported: %s", index, silent[index])
        self._silent = silent
        self._devices = [found[index] for index in sorted(found)]
        self._count = count

    def _with_xids(self, device: DeviceReading) -> DeviceReading:
        return replace(device, xids=self._xids.take(device.uuid))

    def _without_driver(self, gone: nvml_errors.DriverGone) -> NodeReading:
        devices = tuple(self._with_xids(device.last_known()) for device in self._devices)
        return NodeReading(devices, problem=str(gone))

    def _release(self, why: str) -> None:
        """Release everything that belongs to one initialisation of NVML."""
        try:
            self._xids.close()
        except nvml_errors.DriverGone as error:
            log.debug("NVML did not free its events: %s", error)
        self._nvml.close()
        for device in self._devices:
            device.forget(why)


class XidEvents:
    """The XIDs of each GPU since it was first seen, by UUID, until they are taken."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._events: Handle | None = None
        self._supported = True
        # By the address of the handle.
        self._uuids: dict[int, str] = {}
        self._registered: set[int] = set()
        self._xids: defaultdict[str, list[int]] = defaultdict(list)

    def collect(self, devices: Iterable[TrackedDevice]) -> None:
        """Register new GPUs, and read the queued events without waiting."""
        if not self._supported:
            return
        try:
            if self._events is None:
                self._events = self._nvml.ask("nvmlEventSetCreate")
            self._register(devices, self._events)
            self._drain()
        except nvml_errors.NotReadable as error:
            self._supported = not (error.absent or error.denied)
            self.close()
        except (nvml_errors.DeviceLost, nvml_errors.NotThere):
            # A set that contains a lost GPU returns nothing else from then on: create another without it.
            self.close()

    def take(self, uuid: str) -> tuple[int, ...]:
        """A GPU's XIDs, oldest first; each is returned once."""
        return tuple(self._xids.pop(uuid, ()))

    def close(self) -> None:
        """Close the event set; queued XIDs stay."""
        events, self._events = self._events, None
        self._registered.clear()
        if events is not None:
            self._nvml.get("nvmlEventSetFree", events, absent=OF_NODE)

    def _register(self, devices: Iterable[TrackedDevice], events: Handle) -> None:
        handles = {address(d.handle): (d.handle, d.uuid) for d in devices if d.handle is not None}
        # A GPU that was lost and came back is registered again; until then its last events keep their UUID.
        self._registered &= handles.keys()
        for number in handles.keys() - self._registered:
            handle, self._uuids[number] = handles[number]
            self._nvml.register_xids(handle, events)
            self._registered.add(number)

    def _drain(self) -> None:
        for _ in range(_MOST_EVENTS_AT_ONCE):
            try:
                event = self._nvml.ask("nvmlEventSetWait_v2", self._events, 0)
            except nvml_errors.NotReadable as error:
                if error.timeout:
                    return
                raise
            uuid = self._uuids.get(address(event.device))
            if uuid is not None:
                self._xids[uuid].append(int(event.eventData))
