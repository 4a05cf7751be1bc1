"""Expressions that select devices, with the answers of Kubernetes' own CEL, recorded by
tests/e2e/selector_answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from scheduler_ext.core.dra.published import DeviceFacts
from scheduler_ext.core.dra.semantic_version import SemanticVersion, parse_version

SELECTORS: Final = Path(__file__).with_name("golden")
CASES: Final = json.loads((SELECTORS / "cases.json").read_text())
ANSWERS: Final = json.loads((SELECTORS / "answers.json").read_text())


def facts(device: dict[str, Any]) -> DeviceFacts:
    def value(written: dict[str, Any]) -> bool | int | str | SemanticVersion:
        ((kind, found),) = written.items()
        read: bool | int | str | SemanticVersion = parse_version(found) if kind == "version" else found
        return read

    attributes = {name: value(written) for name, written in device.get("attributes", {}).items()}
    capacity = {name: written["value"] for name, written in device.get("capacity", {}).items()}
    return DeviceFacts(device["driver"], attributes, capacity, device.get("allowMultipleAllocations", False))


DEVICES: Final = {name: facts(device) for name, device in CASES["devices"].items()}
