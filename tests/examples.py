"""Numbers of examples for laws whose examples take long."""

from __future__ import annotations

from hypothesis import settings

LONG = settings.get_current_profile_name() in ("long", "fresh")


def examples(every_change: int, long: int) -> settings:
    """The number in `make test`, and the number in `make test-long`."""
    return settings(max_examples=long if LONG else every_change)
