"""XID events, which NVML queues until they are read."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable

from scheduler_ext.agent.nvml import OF_MIG_DEVICE, Handle, Nvml, address
from scheduler_ext.agent.nvml_device import TrackedDevice
from scheduler_ext.agent.nvml_errors import DeviceLost, NotReadable, NotThere

log = logging.getLogger(__name__)

# Bound on the events read at once, so that a failing GPU cannot keep the agent from reporting it.
_MOST_AT_ONCE = 1000


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
        except NotReadable as error:
            self._supported = not (error.absent or error.denied)
            self.close()
        except (DeviceLost, NotThere):
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
            try:
                self._nvml.get("nvmlEventSetFree", events, absent=OF_MIG_DEVICE)
            except (DeviceLost, NotThere) as error:
                log.debug("NVML did not free its events: %s", error)

    def _register(self, devices: Iterable[TrackedDevice], events: Handle) -> None:
        handles = {address(d.handle): (d.handle, d.uuid) for d in devices if d.handle is not None}
        # A GPU that was lost and came back is registered again; until then its last events keep their UUID.
        self._registered &= handles.keys()
        for number in handles.keys() - self._registered:
            handle, self._uuids[number] = handles[number]
            try:
                self._nvml.register_xids(handle, events)
            except DeviceLost as error:
                # The reading of the device itself reports this failure.
                log.debug("no events of a GPU: %s", error)
            self._registered.add(number)

    def _drain(self) -> None:
        for _ in range(_MOST_AT_ONCE):
            try:
                event = self._nvml.ask("nvmlEventSetWait_v2", self._events, 0)
            except NotReadable as error:
                if error.timeout:
                    return
                raise
            uuid = self._uuids.get(address(event.device))
            if uuid is not None:
                self._xids[uuid].append(int(event.eventData))
