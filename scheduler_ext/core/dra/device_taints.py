"""The devices that no claim should get, by the reports of agents and by the cordons of operators."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from scheduler_ext.core.dra.published import DeviceId

UNHEALTHY: Final = "gpu.scheduler-ext.io/unhealthy"
CORDONED: Final = "gpu.scheduler-ext.io/cordoned"


class DeviceTaint(NamedTuple):
    """A taint for one device."""

    device: DeviceId
    key: str

    @property
    def rule(self) -> str:
        """The name of its DeviceTaintRule: the same for the same device and key, for any extender."""
        text = "\0".join((*self.device, self.key))
        return f"gpu-scheduler-{hashlib.blake2b(text.encode(), digest_size=10).hexdigest()}"


def by_rule(taints: Iterable[DeviceTaint]) -> dict[str, DeviceTaint]:
    """The taints by the names of their rules."""
    return {taint.rule: taint for taint in taints}
