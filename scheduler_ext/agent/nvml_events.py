"""XID events, which NVML queues until they are read."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable

from scheduler_ext.agent.nvml import Nvml
from scheduler_ext.agent.nvml_device import TrackedDevice
from scheduler_ext.agent.nvml_errors import DeviceLost, NotReadable, NotThere
from scheduler_ext.agent.nvml_values import EventSet, Handle

log = logging.getLogger(__name__)

# Bound on the events read at once, so that a failing GPU cannot keep the agent from reporting it.
_MOST_AT_ONCE = 1000


class XidEvents:
    """The XIDs of each GPU since it was first seen, by UUID, until they are taken."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._events: EventSet | None = None
        self._supported = True
        # By the address of the handle.
        self._uuids: dict[int, str] = {}
        self._registered: set[int] = set()
        self._xids: defaultdict[str, list[int]] = defaultdict(list)

    def collect(self, devices: Iterable[TrackedDevice]) -> None:
        """Register new GPUs, and read the queued events without waiting."""
        try:
            events = self._listening(devices)
            if events is not None:
                self._drain(events)
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
                self._nvml.free_event_set(events)
            except (DeviceLost, NotThere) as error:
                log.debug("NVML did not free its events: %s", error)

    def _listening(self, devices: Iterable[TrackedDevice]) -> EventSet | None:
        if self._events is None and self._supported:
            self._events = self._nvml.event_set()
        if self._events is None:
            return None
        handles = {self._nvml.address(d.handle): (d.handle, d.uuid) for d in devices if d.handle is not None}
        # A GPU that was lost and came back is registered again; until then its last events keep their UUID.
        self._registered &= handles.keys()
        for address in handles.keys() - self._registered:
            handle, self._uuids[address] = handles[address]
            self._register(handle, self._events)
            self._registered.add(address)
        return self._events

    def _register(self, handle: Handle, events: EventSet) -> None:
        try:
            self._nvml.register_xids(handle, events)
        except DeviceLost as error:
            # The reading of the device itself reports this failure.
            log.debug("no events of a GPU: %s", error)

    def _drain(self, events: EventSet) -> None:
        for _ in range(_MOST_AT_ONCE):
            event = self._nvml.next_xid(events)
            if event is None:
                return
            handle, xid = event
            uuid = self._uuids.get(self._nvml.address(handle))
            if uuid is not None:
                self._xids[uuid].append(xid)
