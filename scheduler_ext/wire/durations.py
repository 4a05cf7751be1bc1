"""Durations in Go's spelling: 150s, 2m30s, 500ms."""

from __future__ import annotations

import re

from scheduler_ext.core.errors import ConfigError

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def duration_s(key: str, text: str, least: float, most: float) -> float:
    """A duration such as 150s, 2m30s or 500ms in seconds. Raises ConfigError naming the key."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ConfigError(f"{key}: {text!r} is no duration; write one such as 150s, 2m30s or 500ms")
    seconds = sum(float(number) * _UNIT_S[unit] for number, unit in parts)
    if not least <= seconds <= most:
        raise ConfigError(f"{key}: {text} is outside {least:g}s to {most:g}s")
    return seconds
