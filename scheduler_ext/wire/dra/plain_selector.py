"""Expressions of the usual form, which need no CEL: the driver and attributes equal constants, joined by
`&&`. The answers are those of Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from scheduler_ext.core.dra.published import DeviceFacts
from scheduler_ext.core.dra.semantic_version import SemanticVersion

# The longest text of a device that is compared; Kubernetes stores 64 characters.
MAX_TEXT: Final = 128
_MISSING: Final = object()
_INT64: Final = range(-(2**63), 2**63)
_MAX_DEPTH: Final = 16  # CEL libraries have limits, too: 32 levels and more

_SPACE: Final = r"[ \t\r\n\f]*"
# An equality with the parentheses around it. Texts are printable ASCII without quotes and backslashes, and
# numbers have 18 digits at most and no leading zeros: nothing for which CEL has special rules.
_PART: Final = re.compile(
    rf"""
    (?P<open>[ \t\r\n\f(]*)
    device\.(?:
        driver
        | attributes\[(['"])(?P<domain>[a-z0-9.-]+)\2\]
          (?: \.(?!(?:true|false|null|in)\b)(?P<name>[A-Za-z_][A-Za-z0-9_]*)
            | \[(['"])(?P<key>[A-Za-z_][A-Za-z0-9_]*)\5\] )
    )
    {_SPACE}=={_SPACE}
    (?: (['"])(?P<text>[ !\#-&(-\[\]-~]*)\7
      | (?P<number>-?(?:0|[1-9][0-9]{{0,17}}))
      | (?P<truth>true|false) )
    (?P<close>[ \t\r\n\f)]*)
    (?P<more>&&)?
    """,
    re.VERBOSE,
)


class SelectorOutcome(Enum):
    """`FAILS`: the expression ends with an error, and kube-scheduler gives up the whole attempt to schedule
    the pod, on every node. `UNKNOWN`: this product cannot evaluate the expression for the device as
    Kubernetes does."""

    ADMITS = "admits"
    REJECTS = "rejects"
    FAILS = "fails"
    UNKNOWN = "unknown"


class SelectorAnswer(NamedTuple):
    """An outcome. `reason`: one line for FAILS and UNKNOWN, otherwise empty."""

    outcome: SelectorOutcome
    reason: str = ""


ADMITS: Final = SelectorAnswer(SelectorOutcome.ADMITS)
REJECTS: Final = SelectorAnswer(SelectorOutcome.REJECTS)


def fails(error: str) -> SelectorAnswer:
    """Return the answer of an expression that ends with an error."""
    return SelectorAnswer(
        SelectorOutcome.FAILS, f"{error}: test with has() whether the device has the attribute"
    )


class UnreadableError(ValueError):
    """A device with a part that this product cannot pass to an expression as Kubernetes does."""


class _Equality(NamedTuple):
    """The attribute (domain, name) equals a constant; the driver does, if `path` is None."""

    path: tuple[str, str] | None
    constant: bool | int | str


class PlainExpression:
    """An expression of the usual form."""

    def __init__(self, equalities: Iterable[_Equality]) -> None:
        self._equalities = tuple(equalities)
        paths = {path for path, _ in self._equalities if path is not None}
        self._attributes = [(path, "/".join(path), f"attribute {'/'.join(path)}") for path in sorted(paths)]

    def answer(self, device: DeviceFacts) -> SelectorAnswer:
        """Return the outcome for a device."""
        values: dict[tuple[str, str] | None, object] = {}
        try:
            for attribute, qualified, part in self._attributes:
                value = device.attributes.get(qualified, _MISSING)
                if value is _MISSING and attribute[0] == device.driver:
                    value = device.attributes.get(attribute[1], _MISSING)
                values[attribute] = value if value is _MISSING else _comparable(part, value)
            values[None] = readable_text("driver", device.driver)
        except UnreadableError as error:
            return SelectorAnswer(SelectorOutcome.UNKNOWN, f"{error}")
        missing: tuple[str, str] | None = None
        for path, constant in self._equalities:
            value = values[path]
            if value is _MISSING:
                missing = missing or path
            elif type(value) is not type(constant) or value != constant:
                return REJECTS  # whatever fails beside it
        return ADMITS if missing is None else fails(f'Key not found in map : "{missing[1]}"')


def read_plain(text: str) -> PlainExpression | None:
    """Return an expression; None if it has another form."""
    equalities: list[_Equality] = []
    position = depth = 0
    more = True
    while more:
        part = _PART.match(text, position)
        if part is None:
            return None
        depth += part["open"].count("(")
        if depth > _MAX_DEPTH:
            return None
        depth -= part["close"].count(")")
        if depth < 0:
            return None
        path = (part["domain"], part["name"] or part["key"]) if part["domain"] else None
        constant = _constant(part)
        if path is None and not isinstance(constant, str):
            return None  # it does not compile
        equalities.append(_Equality(path, constant))
        position, more = part.end(), bool(part["more"])
    return PlainExpression(equalities) if depth == 0 and position == len(text) else None


def _constant(part: re.Match[str]) -> bool | int | str:
    if part["number"]:
        return int(part["number"])
    return part["truth"] == "true" if part["truth"] else part["text"]


def _comparable(part: str, value: object) -> bool | int | str:
    if isinstance(value, SemanticVersion):
        raise UnreadableError(f"{part} is a version: compare it with semver(...)")
    return readable_value(part, value)


def readable_value(part: str, value: object) -> bool | int | str:
    """Return the value of an attribute that is no version. Raises UnreadableError, which names the part."""
    if isinstance(value, str):
        return readable_text(part, value)
    if isinstance(value, bool) or (isinstance(value, int) and value in _INT64):
        return value
    raise UnreadableError(f"{part} is no bool, no string, no version and no number within 64 bits")


def readable_text(part: str, value: str) -> str:
    """Return a text of a device. Raises UnreadableError, which names the part."""
    if len(value) > MAX_TEXT:
        raise UnreadableError(f"{part} has {len(value)} characters: the limit is {MAX_TEXT}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UnreadableError(f"{part} is not valid Unicode: correct it") from None
    return value
