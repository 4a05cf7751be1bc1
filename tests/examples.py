"""How many examples a law is tried on that takes long for each of them."""

from __future__ import annotations

from hypothesis import settings

LONG = settings.get_current_profile_name() in ("long", "fresh")


def examples(every_change: int, long: int) -> settings:
    """So many in ``make test``, and so many in ``make test-long``."""
    return settings(max_examples=long if LONG else every_change)
