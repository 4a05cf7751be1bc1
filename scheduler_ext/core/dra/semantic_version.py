"""Semantic versions with the grammar and the order of github.com/blang/semver/v4, which Kubernetes uses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

_NUMBER: Final = r"0|[1-9][0-9]*"
_WORD: Final = r"[0-9A-Za-z-]+"
_VERSION: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_WORD}(?:\.{_WORD})*))?(?:\+({_WORD}(?:\.{_WORD})*))?"
)
_LARGEST: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class SemanticVersion:
    """One semantic version. `pre` has the parts of the pre-release, numbers as `int`. Versions that differ in
    build metadata only are equal, as in Kubernetes."""

    major: int
    minor: int
    patch: int
    pre: tuple[int | str, ...] = ()
    build: str = field(default="", compare=False)

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        text += "-" + ".".join(map(str, self.pre)) if self.pre else ""
        return text + (f"+{self.build}" if self.build else "")

    def precedence(self) -> tuple[object, ...]:
        """Return a key whose order is the order of versions: a pre-release precedes its release, and numbers
        precede words."""
        parts = tuple((isinstance(part, str), part) for part in self.pre)
        return (self.major, self.minor, self.patch, not self.pre, parts)


@lru_cache(maxsize=1024)
def parse_version(text: str) -> SemanticVersion:
    """Read one version. Raises ValueError when the text is none."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f'version {text[:80]!r} cannot be read: write MAJOR.MINOR.PATCH, such as "1.2.3"')
    pre = tuple(_pre_release_part(part) for part in match[4].split(".")) if match[4] else ()
    version = SemanticVersion(int(match[1]), int(match[2]), int(match[3]), pre, match[5] or "")
    numbers = (version.major, version.minor, version.patch, *(part for part in pre if isinstance(part, int)))
    if max(numbers) > _LARGEST:
        raise ValueError(f"version {text[:80]!r} has a number that is too large: the limit is {_LARGEST}")
    return version


def _pre_release_part(text: str) -> int | str:
    if not text.isdecimal():
        return text
    if text != "0" and text.startswith("0"):
        raise ValueError(f"pre-release {text[:80]!r} has a leading zero: remove it")
    return int(text)


def normalize(text: str) -> str:
    """Return the text that `semver(text, true)` reads: without "v" and leading zeros, with minor and patch.
    Raises ValueError for a short version with a pre-release or build metadata."""
    parts = [_without_leading_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and re.search("[+-]", parts[-1]):
        raise ValueError(f"version {text[:80]!r} is short but has a pre-release: write all three numbers")
    return ".".join(parts + ["0"] * (3 - len(parts)))


def _without_leading_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped[:1].isdecimal() and stripped[:1].isascii() else "0" + stripped
