"""Searches of the extender on a busy machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler_ext.extender import preemptor


@pytest.fixture(autouse=True, scope="package")
def unhurried() -> Iterator[None]:
    """A busy machine cuts no search for victims short; a test of that has a clock of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preemptor, "_RESCUE_S", 60.0)
        yield
