"""How a call to the API server ended, as whoever promised GPU memory has to know it.

``Unknown`` is the one that nothing follows from: the API server may have done it, may still do it, or never
will. Only reading the object tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """It was done, and this was answered."""

    value: T


@dataclass(frozen=True, slots=True)
class Refused:
    """The API server did not do it, and will not; ``retry_after_s`` is how long it wants to be left alone."""

    status: int
    message: str
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """It was sent, and no answer came that tells."""

    message: str
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Unsent:
    """It never left, also where no time was left for it."""

    message: str


Outcome: TypeAlias = Done[T] | Refused | Unknown | Unsent
