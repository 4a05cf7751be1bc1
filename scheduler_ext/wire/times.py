"""Times of Kubernetes' API: RFC 3339, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def seconds(text: str | None) -> float | None:
    """Seconds since 1970 of a time such as 2026-11-21T07:13:08Z; None for any other text."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo is not None else None


def micro_time(at: float) -> str:
    """Kubernetes' MicroTime."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def time_text(at: float) -> str:
    """Kubernetes' Time, in whole seconds."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
