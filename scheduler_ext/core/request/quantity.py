"""Kubernetes quantities: "2", "500m", "40Gi", "1e3" become exact numbers, and absurd ones are refused."""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

MAX_LENGTH: Final = 64
MAX_EXPONENT: Final = 30
MAX_COUNT: Final = 1_000_000
MAX_MIB: Final = 2**30  # 1 PiB; also keeps every amount inside a 32-bit column
BYTES_PER_MIB: Final = 2**20

# [0-9], not \d: Kubernetes knows ASCII digits only. "E" alone is exa; "E" with digits is an exponent.
_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[numkMGTPE]|[KMGTPE]i)?)"
)

_MULTIPLIERS: Final[dict[str, Fraction]] = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{suffix: Fraction(10 ** (3 * power)) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{prefix}i": Fraction(2 ** (10 * power)) for power, prefix in enumerate("KMGTPE", start=1)},
}


class QuantityError(ValueError):
    """A quantity that cannot be read, or that makes no sense where it stands."""


@lru_cache(maxsize=1024)  # pods ask the same few amounts over and over
def parse_quantity(text: str) -> Fraction:
    """Read one Kubernetes quantity exactly, in whatever unit it counts (cores, bytes, devices), by the
    grammar of k8s.io/apimachinery/pkg/api/resource. Raises QuantityError when the text is no quantity, is
    longer than 64 characters, or has an exponent beyond +-30; that is checked before any power is
    computed."""
    if len(text) > MAX_LENGTH:
        raise QuantityError(
            f"quantity {text[:16]!r}... is absurd: {len(text)} characters, the limit is {MAX_LENGTH}"
        )
    match = _QUANTITY.fullmatch(text)
    if match is None:
        if text.endswith("B") and _QUANTITY.fullmatch(text[:-1]):
            raise QuantityError(f"quantity {text!r} cannot be read: leave out the B, as in {text[:-1]!r}")
        raise QuantityError(
            f'quantity {text!r} cannot be read: write a number with an optional suffix, such as "2", "500m", '
            f'"40Gi" or "1e3"'
        )
    number, multiplier = match["number"], _MULTIPLIERS[match["suffix"] or ""]
    if match["exponent"] is not None:
        if abs(int(match["exponent"])) > MAX_EXPONENT:
            raise QuantityError(f"quantity {text!r} is absurd: its exponent is beyond +-{MAX_EXPONENT}")
        multiplier = Fraction(10) ** int(match["exponent"])
    # Nearly all are whole numbers, and a Fraction of a text takes several times as long.
    if number.isdigit():
        value = Fraction(int(number) * multiplier.numerator, multiplier.denominator)
    else:
        value = Fraction(number) * multiplier
    return -value if match["sign"] == "-" else value


@lru_cache(maxsize=1024)
def as_count(text: str) -> int:
    """Read a quantity that counts whole things, such as GPUs: "2", "1k", "1000m" (one). Raises QuantityError
    when it is unreadable, negative, fractional or above 1,000,000."""
    value = parse_quantity(text)
    if value < 0:
        raise QuantityError(f"quantity {text!r} is negative: a count must be 0 or more")
    if value.denominator != 1:
        raise QuantityError(f"quantity {text!r} is fractional: a count must be a whole number")
    if value > MAX_COUNT:
        raise QuantityError(f"quantity {text!r} is absurd: a count must be at most {MAX_COUNT}")
    return value.numerator


def as_mib(text: str) -> int:
    """Read a quantity of bytes as MiB, rounded up: "40Gi" is 40960, "2M" is 2. Raises QuantityError when it
    is unreadable, negative, above 1 PiB, or above zero but below one MiB ("40" means 40 bytes)."""
    value_mib = parse_quantity(text) / BYTES_PER_MIB
    if value_mib < 0:
        raise QuantityError(f"quantity {text!r} is negative: an amount of memory must be 0 or more")
    if value_mib > MAX_MIB:
        raise QuantityError(f"quantity {text!r} is absurd: an amount of memory must be at most 1Pi")
    if 0 < value_mib < 1:
        raise QuantityError(
            f"quantity {text!r} is less than one MiB: probably a unit such as Mi or Gi was forgotten, "
            f'"40Gi" means 40 GiB but "40" means 40 bytes'
        )
    return -(-value_mib.numerator // value_mib.denominator)
