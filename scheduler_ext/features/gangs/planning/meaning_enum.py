"""Closed sets whose members explain themselves."""

from enum import Enum
from typing import Self


class MeaningEnum(Enum):
    """Members have a value for programs and a `meaning`, a sentence for people."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        """A member whose value is the first of the two texts."""
        member = object.__new__(cls)
        member._value_ = value
        member.meaning = meaning
        return member
