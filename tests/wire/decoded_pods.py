"""Pods as the wire format decodes them."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from scheduler_ext.wire import kube
from tests.kube_objects import Json


def decoded(value: Json) -> kube.Pod:
    """A pod of plain values."""
    return msgspec.json.decode(json.dumps(value).encode(), type=kube.Pod)


def with_spec(**spec: Any) -> kube.Pod:
    """A pod "p" of that spec."""
    return decoded({"metadata": {"name": "p"}, "spec": spec})


def spec_of(**spec: Any) -> kube.PodSpec:
    """The spec of such a pod."""
    return msgspec.json.decode(json.dumps(spec), type=kube.PodSpec)


def container(name: str = "main", **resources: Any) -> Json:
    """A container of those resources."""
    return {"name": name, "resources": resources}
