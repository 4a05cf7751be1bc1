"""Looking into rendered objects, in which any field may be missing or null."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Json = dict[str, Any]

# Where the specification of a pod stands in each kind that has one.
_POD_SPECS = {
    "Pod": ("spec",),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        ("Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "ReplicationController", "Job"),
        ("spec", "template", "spec"),
    ),
}
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


def of_kind(objects: Sequence[Json], *kinds: str) -> list[Json]:
    """The objects of some kinds."""
    return [each for each in objects if each["kind"] in kinds]


def mapping(value: Any, *path: str) -> Json:
    """The mapping at `path`; an empty one where something on the way is missing or null."""
    for key in path:
        value = (value or {}).get(key)
    return value or {}


def entries(value: Any, *path: str) -> list[Any]:
    """The list at `path`; an empty one where something on the way is missing or null."""
    *above, last = path
    return mapping(value, *above).get(last) or []


def title(each: Json) -> str:
    """How a violation names an object."""
    return f"{each['kind']} {mapping(each, 'metadata').get('name')}"


def namespace_of(each: Json) -> str | None:
    """The namespace an object is in; None for those in none."""
    found: str | None = mapping(each, "metadata").get("namespace")
    return found


def pods(objects: Sequence[Json]) -> Iterator[tuple[str, Json]]:
    """(where, pod specification) of everything that runs pods."""
    for each in objects:
        if each["kind"] in _POD_SPECS:
            yield title(each), mapping(each, *_POD_SPECS[each["kind"]])


def ends(spec: Json) -> bool:
    """Whether a pod is to end, and does not go on running."""
    return spec.get("restartPolicy") in ("Never", "OnFailure")


def containers_of(spec: Json) -> list[Json]:
    """All containers of a pod, including init containers."""
    return [container for key in _CONTAINER_LISTS for container in entries(spec, key)]


def containers(objects: Sequence[Json]) -> Iterator[tuple[str, Json]]:
    """(where, container) of everything that runs pods."""
    for where, spec in pods(objects):
        for container in containers_of(spec):
            yield f"{where}/{container['name']}", container


def command_line(container: Json) -> list[str]:
    """A container's command and arguments, without those of the image."""
    return [*entries(container, "command"), *entries(container, "args")]


def option(words: Sequence[str], name: str) -> str | None:
    """The last value of an option, written --name=value or --name value; None without it."""
    found = None
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == name:
            found = following
        elif word.startswith(f"{name}="):
            found = word.partition("=")[2]
    return found


def extenders(objects: Sequence[Json]) -> Iterator[tuple[str, Json]]:
    """(where, container) of every extender, by its command or by its image."""
    for where, container in containers(objects):
        image = container.get("image", "").rpartition("/")[2].partition(":")[0]
        if "serve" in command_line(container) or (
            image == "scheduler-ext" and "agent" not in command_line(container)
        ):
            yield where, container


def kube_schedulers(objects: Sequence[Json]) -> Iterator[tuple[str, Json]]:
    """(where, container) of every kube-scheduler, by its command or by its image."""
    for where, container in containers(objects):
        if "kube-scheduler" in " ".join([*command_line(container)[:1], container.get("image", "")]):
            yield where, container
