"""Times of Kubernetes' API, RFC 3339 in UTC, and durations in Go's spelling: 150s, 2m30s, 500ms."""

import re
from datetime import UTC, datetime

from scheduler_ext.core.errors import ConfigError

# A whole duration, in the regular expressions of JSON schemas too.
DURATION = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
# 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z: times beyond, which other zones can name, cannot be written.
_FIRST_S, _LAST_S = -62_135_596_800.0, 253_402_300_799.0


def seconds(text: str | None) -> float | None:
    """Seconds since 1970 of a time such as 2026-11-21T07:13:08Z; None for any other text,
    and for a time that cannot be written in UTC."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    at = moment.timestamp()
    return at if _FIRST_S <= at <= _LAST_S else None


def micro_time(at: float) -> str:
    """Kubernetes' MicroTime."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def time_text(at: float) -> str:
    """Kubernetes' Time, in whole seconds."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def span_text(span_s: float) -> str:
    """A time span in its two largest units, rounded down: 3d4h, 2h5m, 45m, 30s."""
    left_s = int(span_s)
    parts: list[tuple[int, str]] = []
    for unit, size_s in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left_s = divmod(left_s, size_s)
        if count or parts:
            parts.append((count, unit))
    return "".join(f"{count}{unit}" for count, unit in parts[:2] if count) or "0s"


def duration_text(length_s: float) -> str:
    """A duration as `duration_s` reads it, to the millisecond: 168h, 2m30s, 500ms."""
    left_ms = round(length_s * 1000)
    parts = []
    for unit, size_ms in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left_ms = divmod(left_ms, size_ms)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def duration_s(key: str, text: str, least: float, most: float) -> float:
    """A duration in seconds. Raises ConfigError naming the key."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ConfigError(f"{key}: {text!r} is no duration; write one such as 150s, 2m30s or 500ms")
    total_s = sum(float(number) * _UNIT_S[unit] for number, unit in parts)
    if not least <= total_s <= most:
        raise ConfigError(f"{key}: {text} is outside {duration_text(least)} to {duration_text(most)}")
    return total_s
