"""Configurations of one key, for tests of the settings of the kernel and of features."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from scheduler_ext.core.errors import ConfigError
from scheduler_ext.wire.config import Configuration, load_config

HEADER = {"apiVersion": "config.scheduler-ext.io/v1alpha1", "kind": "ExtenderConfiguration"}


def with_key(key: str, value: Any) -> dict[str, Any]:
    """A configuration of one key, as a dotted path."""
    *parents, last = key.split(".")
    document: dict[str, Any] = dict(HEADER)
    place = document
    for parent in parents:
        place[parent] = {}
        place = place[parent]
    place[last] = value
    return document


def load(document: Any) -> Configuration:
    return load_config(yaml.safe_dump(document).encode())


def refusal_of(document: Any) -> str:
    with pytest.raises(ConfigError) as refusal:
        load(document)
    message = str(refusal.value)
    assert "\n" not in message
    return message


def check_bounds(key: str, accepted: tuple[Any, ...], refused: tuple[Any, ...]) -> None:
    """That a setting takes these values, and refuses those with its key."""
    for value in accepted:
        assert load(with_key(key, value)) is not None
    for value in refused:
        assert refusal_of(with_key(key, value)).startswith(key)
