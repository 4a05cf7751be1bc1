"""The functions that Kubernetes adds to CEL for quantities and versions, on encoded values.

The CEL library has no values of foreign types, so that a quantity or a version is bytes: equal values have
equal bytes. Sources: pkg/cel/library/quantity.go and semverlib.go of k8s.io/apiserver v0.36.2."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Final

from scheduler_ext.core.dra.semantic_version import SemanticVersion, normalize, parse_version
from scheduler_ext.core.request.quantity import MAX_LENGTH, QuantityError, parse_quantity

_INT64: Final = range(-(2**63), 2**63)
_NANO: Final = 10**9
_EXACT_FLOAT: Final = 2**53
_LARGE_EXPONENT: Final = re.compile(r"[eE][+-]?[0-9]{2,}$")
_NO_DIGIT: Final = re.compile(r"[+-]?\.?(?:[eE][+-]?[0-9]+|[A-Za-z]{0,2})")  # 0 for Kubernetes
_BINARY_EXPONENT: Final = {f"{letter}i": 10 * power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL_EXPONENT: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_PARTS: Final = re.compile(r"[+-]?0*([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+)|([A-Za-z]*))")


class UnsureError(ValueError):
    """A value that Kubernetes may read in another way than this product."""


class _Doubt(threading.local):
    """Whether a function of this thread's evaluation raised UnsureError: CEL may report another error."""

    raised = False


doubt: Final = _Doubt()


def _unsure(reason: str) -> UnsureError:
    doubt.raised = True
    return UnsureError(reason)


@lru_cache(maxsize=4096)
def encode_quantity(text: str, tracked: bool) -> bytes:
    """Encode a quantity's text as `q` and its number. `tracked` appends how Kubernetes stores the number:
    `i` if asInteger succeeds, otherwise `d`. Raises ValueError for no quantity, UnsureError for a text that
    Kubernetes may accept and this product does not."""
    if len(text) > MAX_LENGTH or _LARGE_EXPONENT.search(text) or _NO_DIGIT.fullmatch(text):
        raise UnsureError(f"quantity {text[:80]!r} is unusual: write a short number with a suffix")
    value = parse_quantity(text)
    if text.endswith("i"):
        value = max(min(value, Fraction(_INT64[-1])), Fraction(-_INT64[-1]))
    nanos = -(-abs(value) * _NANO // 1)  # rounded away from 0
    value = Fraction(nanos if value >= 0 else -nanos, _NANO)
    return _encode_number(value, ("i" if _is_stored_as_integer(text) else "d") if tracked else "")


def _is_stored_as_integer(text: str) -> bool:
    """Return whether `Quantity.AsInt64` succeeds after `ParseQuantity`: only for digits that leave room in an
    int64, as `ParseQuantity` estimates it (k8s.io/apimachinery, pkg/api/resource/quantity.go)."""
    match = _PARTS.fullmatch(text)
    if match is None:
        return False
    digits, fraction, exponent, suffix = match[1], match[2] or "", match[3], match[4] or ""
    if suffix in _BINARY_EXPONENT:
        room = 15 - len(digits) - int(_BINARY_EXPONENT[suffix] * 3 / 10) - 1
        return not fraction and room >= 0
    scale = int(exponent) if exponent is not None else _DECIMAL_EXPONENT.get(suffix, 0)
    if len(digits) + len(fraction) > 18 or scale - len(fraction) < 0:
        return False
    return abs(int(digits + fraction or "0") * 10 ** (scale - len(fraction))) in _INT64


def _encode_number(value: Fraction, stored: str) -> bytes:
    return f"q{value.numerator}/{value.denominator}{stored}".encode()


@lru_cache(maxsize=4096)
def _number(encoded: bytes) -> Fraction:
    return Fraction(encoded[1:].decode().rstrip("id?"))


def encode_version(version: SemanticVersion) -> bytes:
    """Encode a version as `v` and its text without build metadata."""
    return f"v{version}".partition("+")[0].encode()


@lru_cache(maxsize=4096)
def _version(encoded: bytes) -> SemanticVersion:
    return parse_version(encoded[1:].decode())


def _sign(order: bool, reverse: bool) -> int:
    return order - reverse


def compare(left: bytes, right: bytes) -> int:
    """Return 1, 0 or -1 for two quantities or two versions. Raises ValueError for one of each."""
    left, right = bytes(left), bytes(right)
    if left[:1] != right[:1]:
        raise ValueError("no such overload: a quantity and a version have no order")
    if left[:1] == b"q":
        return _sign(_number(left) > _number(right), _number(left) < _number(right))
    first, second = _version(left).precedence(), _version(right).precedence()
    return _sign(first > second, first < second)


def _version_part(name: str) -> Callable[[bytes], int]:
    def part(encoded: bytes) -> int:
        if encoded[:1] != b"v":
            raise ValueError("no such overload: a quantity has no version")
        value = int(getattr(_version(bytes(encoded)), name))
        return value if value in _INT64 else value - 2**64  # Go's conversion of uint64 to int64

    return part


major: Final = _version_part("major")
minor: Final = _version_part("minor")
patch: Final = _version_part("patch")


def semver(text: str, normalized: bool = False) -> bytes:
    """`semver(text)` and `semver(text, true)`."""
    return encode_version(parse_version(normalize(text) if normalized else text))


def is_semver(text: str, normalized: bool = False) -> bool:
    """`isSemver(text)` and `isSemver(text, true)`."""
    try:
        semver(text, normalized)
    except ValueError:
        return False
    return True


class QuantityFunctions:
    """The functions of quantities. `tracked`: encoded values show whether asInteger succeeds, which
    equality must not compare."""

    def __init__(self, tracked: bool) -> None:
        self._tracked = tracked

    def quantity(self, text: str) -> bytes:
        try:
            return encode_quantity(text, self._tracked)
        except UnsureError as error:
            raise _unsure(str(error)) from None

    def is_quantity(self, text: str) -> bool:
        try:
            self.quantity(text)
        except QuantityError:
            return False
        return True

    def compare(self, left: bytes, right: bytes) -> int:
        """`compareTo` of quantities and versions. Raises UnsureError where Kubernetes changes how it stores a
        quantity, after which asInteger of the same quantity fails."""
        if self._tracked and left[:1] == b"q" and not (left.endswith(b"i") and right.endswith(b"i")):
            raise _unsure("compareTo beside asInteger, add or sub is supported for whole quantities")
        return compare(left, right)

    def is_greater(self, left: bytes, right: bytes) -> bool:
        return self.compare(left, right) > 0

    def is_less(self, left: bytes, right: bytes) -> bool:
        return self.compare(left, right) < 0

    def sign(self, encoded: bytes) -> int:
        return _sign(_number(bytes(encoded)) > 0, _number(bytes(encoded)) < 0)

    def is_integer(self, encoded: bytes) -> bool:
        """Raises UnsureError for a sum that Kubernetes may store in another way."""
        if encoded.endswith(b"?"):
            raise _unsure("isInteger and asInteger of such a sum are not supported: compare quantities")
        return encoded.endswith(b"i")

    def as_integer(self, encoded: bytes) -> int:
        if not self.is_integer(encoded):
            raise ValueError("cannot convert value to integer")
        return int(_number(bytes(encoded)))

    def as_float(self, encoded: bytes) -> float:
        """Raises UnsureError for a number that a float may round in two ways."""
        value = _number(bytes(encoded))
        if value.denominator != 1 or abs(value) > _EXACT_FLOAT:
            raise _unsure("asApproximateFloat is supported for whole numbers up to 2^53: compare quantities")
        return float(value)

    def add(self, left: bytes, right: bytes) -> bytes:
        return self._sum(_number(bytes(left)) + _number(bytes(right)), left, right)

    def sub(self, left: bytes, right: bytes) -> bytes:
        return self._sum(_number(bytes(left)) - _number(bytes(right)), left, right)

    def add_int(self, left: bytes, right: int) -> bytes:
        return self._sum(_number(bytes(left)) + right, left)

    def sub_int(self, left: bytes, right: int) -> bytes:
        """Raises UnsureError for the least integer, which Go cannot negate."""
        if right == _INT64[0]:
            raise _unsure("sub() of the least integer is not supported: use add()")
        return self._sum(_number(bytes(left)) - right, left)

    def _sum(self, value: Fraction, *terms: bytes) -> bytes:
        """Raises UnsureError for a first term that Kubernetes changes in place, because it is stored as a
        decimal."""
        if not terms[0].endswith(b"i"):
            raise _unsure("add and sub are supported for whole quantities, such as 40Gi")
        whole = all(term.endswith(b"i") for term in terms) and value.numerator in _INT64
        return _encode_number(value, "i" if whole else "?")
