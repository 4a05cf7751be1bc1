"""Integers inside labels and taints, read exactly as strictly as kube-scheduler reads them."""

from __future__ import annotations

import re
from typing import Final

_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,64}")  # a label value has at most 63 characters
_CANONICAL: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1


def parse_int64(text: str) -> int | None:
    """Read a signed 64-bit decimal as Go's strconv.ParseInt does; None where that would fail."""
    if _DECIMAL.fullmatch(text) is None:
        return None
    number = int(text)
    return number if _INT64_MIN <= number <= _INT64_MAX else None


def parse_canonical_int64(text: str) -> int | None:
    """Read a signed 64-bit decimal without plus sign or leading zeros; None for any other text.

    Tolerations compare only this form (k8s.io/apimachinery/pkg/api/validate/content, IsDecimalInteger).
    """
    return parse_int64(text) if _CANONICAL.fullmatch(text) else None
