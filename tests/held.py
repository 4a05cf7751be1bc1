"""A pod's holdings from its JSON alone: an independent computation that shares no code with the product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.kube_objects import SHARE, Json

DEVICES = "devices.gpu.scheduler-ext.io/"
FINISHED = ("Succeeded", "Failed")
_PLUGIN = "nvidia.com/"
_SUFFIXES = {"k": 10**3, "M": 10**6}


def held(pod: Json) -> dict[str, int] | None:
    """A bound pod's holdings at its peak: MiB by GPU, and its device plugin's units by NODE/RESOURCE; empty
    if it holds nothing, None if it has a share on an unknown GPU.
    """
    node = pod["spec"].get("nodeName")
    if node is None or pod["status"].get("phase") in FINISHED:
        return {}
    told = pod["metadata"].get("annotations", {})
    peak: Counter[str] = Counter()
    for together in _phases(pod["spec"]):
        found: Counter[str] = Counter()
        for container in together:
            for resource, amount in container["resources"].get("limits", {}).items():
                if resource == SHARE:
                    device = told.get(DEVICES + container["name"])
                    if not device:
                        return None
                    found[device] += amount_of(amount)
                elif resource.startswith(_PLUGIN):
                    found[f"{node}/{resource}"] += amount_of(amount)
        peak |= found
    return dict(peak)


def amount_of(text: str) -> int:
    """A whole amount as the API server writes it: 30000 is 30k there."""
    for suffix, times in _SUFFIXES.items():
        if text.endswith(suffix):
            return int(text.removesuffix(suffix)) * times
    return int(text)


def _phases(spec: Json) -> Iterator[list[Json]]:
    """Containers that run at one time: each init container beside the sidecars before it, then the app."""
    sidecars: list[Json] = []
    for container in spec.get("initContainers", ()):
        yield [*sidecars, container]
        if container.get("restartPolicy") == "Always":
            sidecars.append(container)
    yield [*sidecars, *spec["containers"]]
