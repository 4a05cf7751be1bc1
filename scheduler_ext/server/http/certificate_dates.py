"""When a certificate ends. Python's ssl tells it of a peer's certificate only, not of one's own."""

from __future__ import annotations

import calendar
import re
import ssl
import time
from pathlib import Path

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_VERSION, _UTC_TIME = 0xA0, 0x17
_FORMAT = "%Y%m%d%H%M%SZ"


def not_after(path: Path) -> float:
    """The end of the first certificate in a PEM file, which is the server's own, in seconds since 1970.

    Raises OSError where it cannot be read, ValueError where there is no certificate in it.
    """
    found = _CERTIFICATE.search(path.read_text(encoding="ascii", errors="replace"))
    if found is None:
        raise ValueError(f"{path}: no certificate in it")
    try:
        return _not_after(ssl.PEM_cert_to_DER_cert(found[0]))
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a certificate") from error


def _not_after(der: bytes) -> float:
    """By RFC 5280, 4.1: the second time in the validity of the part that is signed."""
    _, at, _ = _element(der, 0)
    _, at, _ = _element(der, at)
    tag, _, end = _element(der, at)
    if tag == _VERSION:
        at = end
    # Serial number, signature algorithm, issuer.
    for _ in range(3):
        _, _, at = _element(der, at)
    _, at, _ = _element(der, at)
    _, _, at = _element(der, at)
    tag, start, end = _element(der, at)
    text = der[start:end].decode("ascii")
    if tag == _UTC_TIME:
        # Years of two digits are those from 1950 to 2049 (4.1.2.5.1).
        text = ("19" if text[:2] >= "50" else "20") + text
    return float(calendar.timegm(time.strptime(text, _FORMAT)))


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """(tag, start, end) of the element that begins there (X.690, 8.1)."""
    length, start = der[at + 1], at + 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[at + 2 : start], "big")
    return der[at], start, start + length
