"""Objections of kube-apiserver to a GPUNode's status, by the schema and the rules of the shipped CRD.

The rules are CEL in the CRD and Python here, matched by their message: a new rule in the CRD is missed here.
tests/e2e asks a real API server.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from scheduler_ext.agent.fitting import MAX_MIB
from tests.kube_objects import Json
from tests.wire.reports.test_gpunode_crd import PARTS

TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


def refusals(value: Any, schema: Json = PARTS["status"], path: str = "status") -> list[str]:
    """The errors of a value, as "path: error"; empty if it would be accepted."""
    if value is None:
        return [] if schema.get("nullable") else [f"{path}: null"]
    kind = TYPES[schema["type"]]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        return [f"{path}: no {schema['type']}"]
    found = [f"{path}: {problem}" for problem in _of_itself(value, schema)]
    if isinstance(value, dict):
        known = schema["properties"]
        for key, part in value.items():
            found += refusals(part, known[key], f"{path}.{key}") if key in known else [f"{path}.{key}: ?"]
    if isinstance(value, list):
        for i, part in enumerate(value):
            found += refusals(part, schema["items"], f"{path}[{i}]")
    # As a real one: rules are looked at where everything has the form that they expect.
    if not found:
        rules = [rule["message"] for rule in schema.get("x-kubernetes-validations", ())]
        found = [f"{path}: {message}" for message in rules if not RULES[message](_without_nulls(value))]
    return found


def _without_nulls(value: Any) -> Any:
    """The value without null fields, which rules see as absent."""
    if isinstance(value, dict):
        return {key: _without_nulls(part) for key, part in value.items() if part is not None}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value


def _of_itself(value: Any, schema: Json) -> Iterator[str]:
    length = len(value) if isinstance(value, str | list) else 0
    bounds = {
        "enum": value in schema.get("enum", (value,)),
        "pattern": not isinstance(value, str) or re.search(_python(schema.get("pattern", "")), value),
        "minLength": length >= schema.get("minLength", 0),
        "maxLength": length <= schema.get("maxLength", length),
        "maxItems": length <= schema.get("maxItems", length),
        "minimum": not isinstance(value, int) or value >= schema.get("minimum", value),
        "maximum": not isinstance(value, int) or value <= schema.get("maximum", value),
        "required": not isinstance(value, dict) or value.keys() >= set(schema.get("required", ())),
        "keys": len(set(_keys(value, schema))) == len(_keys(value, schema)),
    }
    yield from (name for name, holds in bounds.items() if not holds)


def _python(pattern: str) -> str:
    """Python's $ would also take a line end."""
    return re.sub(r"\$$", r"\\Z", pattern)


def _keys(value: Any, schema: Json) -> list[Any]:
    kind = schema.get("x-kubernetes-list-type")
    if kind == "map":
        return [tuple(item.get(key) for key in schema["x-kubernetes-list-map-keys"]) for item in value]
    return value if kind == "set" else []


def _devices(status: Json) -> list[Json]:
    found: list[Json] = status.get("devices", [])
    return found


def _memory(status: Json, field: str) -> int:
    return sum(device["memory"].get(field, 0) for device in _devices(status))


def _summary(status: Json, field: str, value: Callable[[], Any]) -> bool:
    summary = status.get("summary", {})
    return field not in summary or summary[field] == value()


def _healthy(status: Json) -> int:
    states = [device.get("health", {}).get("state") for device in _devices(status)]
    return len(states) - states.count("Unhealthy")


def _models_listed(status: Json) -> bool:
    listed = status.get("summary", {}).get("model")
    models = [device.get("model") for device in _devices(status)]
    return listed is None or (
        {model for model in models if model} <= set(listed.split(", "))
        and all(name in models or None in models for name in listed.split(", "))
    )


def _used_percent(status: Json) -> int:
    total = _memory(status, "totalMiB")
    return _memory(status, "usedMiB") * 100 // total if total else 0


def _instances(device: Json) -> list[Json]:
    found: list[Json] = (device.get("mig") or {}).get("instances") or []
    return found


def _held(holder: Json) -> int:
    return int(holder.get("memoryMiB") or 0)


def _grid(mig: Json) -> int:
    return int(mig.get("gridSize") or 0)


def _units(instance: Json) -> range:
    return range(instance["start"], instance["start"] + instance.get("size", 1))


def _apart(mig: Json) -> bool:
    taken = Counter(unit for i in mig.get("instances", []) if "start" in i for unit in _units(i))
    return all(count == 1 for count in taken.values())


def _as_its_profile(mig: Json) -> bool:
    placed = {p["name"]: p for p in mig.get("profiles", []) if p["starts"]} if _grid(mig) else {}
    return all(
        i.get("size", p["size"]) == p["size"] and i.get("start", p["starts"][0]) in p["starts"]
        for i in mig.get("instances", [])
        if (p := placed.get(i["profile"])) is not None
    )


def _smaller(profile: str) -> bool:
    match = re.match(r"([0-9]+)c\.([0-9]+)g", profile)
    return match is None or int(match[1]) < int(match[2])


RULES: dict[str, Callable[[Any], bool]] = {
    "sequence may not go back within one bootID": lambda status: True,
    "summary.gpus is not the number of devices": lambda s: _summary(s, "gpus", lambda: len(_devices(s))),
    "summary.healthy is not the number of devices that are not Unhealthy": (
        lambda s: _summary(s, "healthy", lambda: _healthy(s))
    ),
    "summary.model does not list the models of devices, as in 'A100-80GB, T4'": _models_listed,
    "summary.memoryUsedPercent is not the devices' usedMiB in percent of their totalMiB, rounded down": (
        lambda s: _summary(s, "memoryUsedPercent", lambda: _used_percent(s))
    ),
    "a UUID that begins with MIG- is that of an instance, not of a GPU": lambda u: not u.startswith("MIG-"),
    "instances of two GPUs have the same UUID": lambda devices: all(
        count == 1 for count in Counter(i["uuid"] for d in devices for i in _instances(d)).values()
    ),
    "a holder uses more than totalMiB": lambda d: all(
        _held(holder) <= (d["memory"]["totalMiB"] or MAX_MIB) for holder in d.get("holders", [])
    ),
    "the holder of an instance uses more than totalMiB": lambda d: all(
        _held(i.get("holder", {})) <= (d["memory"]["totalMiB"] or MAX_MIB) for i in _instances(d)
    ),
    "a GPU whose MIG mode is off has no instances": (
        lambda m: not m.get("instances") or m.get("enabled") is not False
    ),
    "two devices have the same index": lambda devices: len({d["index"] for d in devices}) == len(devices),
    "usedMiB + reservedMiB exceed totalMiB by more than 1 %": (
        lambda m: (m.get("usedMiB", 0) + m.get("reservedMiB", 0)) * 100 <= m["totalMiB"] * 101
    ),
    "unaccountedMiB exceeds usedMiB, of which it is a part": (
        lambda m: m.get("unaccountedMiB", 0) <= m.get("usedMiB", 0)
    ),
    "an instance leaves the grid of the device": lambda m: all(
        i.get("start", 0) + i.get("size", 0) <= (_grid(m) or 16) for i in m.get("instances", [])
    ),
    "instances overlap": _apart,
    "a profile's starts leave the grid of the device": lambda m: all(
        start + p["size"] <= (_grid(m) or 32) for p in m.get("profiles", []) for start in p["starts"]
    ),
    "an instance's size or start does not match its profile": _as_its_profile,
    "a profile that has starts needs a size and maxInstances of at least 1": (
        lambda p: not p["starts"] or min(p["size"], p["maxInstances"]) >= 1
    ),
    "a compute instance has fewer slices than its GPU instance, such as 1c.3g.20gb": _smaller,
    "a start without a size; give both or neither": lambda i: "start" not in i or "size" in i,
}
