"""YAML or JSON texts from outside, as JSON documents."""

import codecs
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from scheduler_ext.core.errors import DocumentError
from scheduler_ext.wire.yaml_values import FILE, YamlLimits, yaml_values

# Windows PowerShell writes the second into files.
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DIRECTIVE: Final = re.compile("(?:^|[\n\r\x85\u2028\u2029])(%[^\n\r\x85\u2028\u2029]{0,40})")


def json_documents(body: bytes, limits: YamlLimits = FILE) -> Iterator[tuple[str, bytes]]:
    """The documents of a text that are not null, each with its place ("document 2"), as JSON. Raises
    DocumentError, possibly after some documents."""
    text = _utf8(body)
    if text.lstrip()[:1] == b"{":
        try:
            msgspec.json.decode(text, type=msgspec.Raw)
        except (msgspec.DecodeError, RecursionError):
            # Flow-style YAML also starts with a brace; the YAML reader then reports the error.
            pass
        else:
            yield "document 1", text
            return
    # The parser compares each %TAG with all others, which can block all other threads for a second.
    if limits.repeated_bytes is None and (found := _DIRECTIVE.search(text.decode())) is not None:
        raise DocumentError(f"YAML: directive {found[1]!r}: not read here; remove the line")
    for number, value in enumerate(yaml_values(text, limits), 1):
        if value is not None:
            try:
                encoded = msgspec.json.encode(value)
            except (UnicodeEncodeError, RecursionError) as error:
                raise DocumentError(f"neither YAML nor JSON: {error}") from None
            yield f"document {number}", encoded


def _utf8(body: bytes) -> bytes:
    """The text as UTF-8 without a byte order mark. Raises DocumentError."""
    try:
        for mark, encoding in _BYTE_ORDER_MARKS:
            if body.startswith(mark):
                return body.decode(encoding).encode()
        if not body.isascii():
            body.decode()
    except UnicodeError as error:
        raise DocumentError(f"neither YAML nor JSON: {error}") from None
    return body
