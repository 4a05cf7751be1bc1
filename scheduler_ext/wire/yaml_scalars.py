"""JSON values of YAML's scalars: text, whole numbers, floats, booleans and null. Plain scalars are read by
YAML 1.1 as in PyYAML: `on` is true, `010` is 8, `0o10` and `1e3` are text. Two of its forms stay
text, as in kubectl: timestamps, and numbers to the base of 60 (`1:30`)."""

import math
import re
from typing import Final

Scalar = str | int | float | bool | None

_PREFIX: Final = "tag:yaml.org,2002:"
# A tag of "!" alone makes a scalar text.
_NON_SPECIFIC: Final = "!"
# No amount, port or priority is longer.
_MAX_NUMBER_CHARS: Final = 400
_SHOWN_CHARS: Final = 40
_WORDS: Final[dict[str, bool | None]] = {
    form: value
    for words, value in (
        (("", "~", "null"), None),
        (("true", "yes", "on"), True),
        (("false", "no", "off"), False),
    )
    for word in words
    for form in (word, word.capitalize(), word.upper())
}
_STARTS_NUMBER: Final = frozenset("+-.0123456789")
_INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0b(?P<binary>[01_]+)|0x(?P<hex>[0-9a-fA-F_]+)|0(?P<octal>[0-7_]+)"
    r"|(?P<decimal>0|[1-9][0-9_]*))"
)
_FLOAT: Final = re.compile(r"(?:[-+]?[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?")
_NO_NUMBER: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_BASES: Final = {"binary": 2, "hex": 16, "octal": 8, "decimal": 10}
_KINDS: Final[dict[str, type]] = {"int": int, "float": float, "bool": bool, "null": type(None)}


class ScalarError(ValueError):
    """A scalar without a JSON value; the text shows it."""


def scalar_value(tag: str | None, text: str, plain: bool) -> Scalar:
    """The value of a scalar; `plain` means without quotes and tag. Raises ScalarError."""
    if plain:
        return _plain_value(text)
    if tag is None or tag in (_NON_SPECIFIC, _PREFIX + "str"):
        return text
    name = tag.removeprefix(_PREFIX)
    kind = _KINDS.get(name)
    if kind is None or name == tag:
        raise ScalarError(refused_tag(tag))
    value = _plain_value(text)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ScalarError(f"!!{name} {shown(text)}: is no {name}; remove the tag, or correct the value")
    return value


def key_text(tag: str | None, text: str, plain: bool) -> str:
    """A scalar as the key of a mapping: text, or a number as written. Raises ScalarError."""
    value = text if plain and text not in _WORDS else scalar_value(tag, text, plain)
    if value is None or isinstance(value, bool):
        raise ScalarError(f"key {shown(text)}: is no text in YAML; quote it")
    return text


def refused_tag(tag: str) -> str:
    """Why a tag is not supported."""
    short = "!!" + tag.removeprefix(_PREFIX) if tag.startswith(_PREFIX) else tag
    return f"tag {shown(short)}: not read here; remove the tag"


def is_tag_of(tag: str | None, kind: str) -> bool:
    """Whether a collection with this tag is of this kind, "map" or "seq"."""
    return tag is None or tag in (_NON_SPECIFIC, _PREFIX + kind)


def shown(text: str) -> str:
    """A text of any length, shortened for a message."""
    return repr(text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "...")


def _plain_value(text: str) -> Scalar:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _STARTS_NUMBER:
        return text
    if (found := _INTEGER.fullmatch(text)) is not None:
        return _integer(text, found)
    if _FLOAT.fullmatch(text) is not None:
        return _float(text)
    if _NO_NUMBER.fullmatch(text) is not None:
        raise ScalarError(f"{text}: JSON has no such number; quote it if it is text")
    return text


def _integer(text: str, found: re.Match[str]) -> int:
    kind = found.lastgroup or "decimal"
    digits = found[kind].replace("_", "") or "0"
    if len(text) <= _MAX_NUMBER_CHARS:
        value = int(found["sign"] + digits, _BASES[kind])
        if -(2**63) <= value < 2**64:
            return value
    raise ScalarError(f"number {shown(text)} does not fit into 64 bits; quote it if it is text")


def _float(text: str) -> float:
    value = float(text.replace("_", "")) if len(text) <= _MAX_NUMBER_CHARS else math.inf
    if math.isinf(value):
        raise ScalarError(f"number {shown(text)} is beyond the range of numbers; quote it if it is text")
    return value
