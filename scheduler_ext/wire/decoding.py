"""Bytes to values, with an error message for the author of the bytes."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from scheduler_ext.core.errors import InventoryError, RequestError

_T = TypeVar("_T")


def explained(error: msgspec.DecodeError) -> str:
    """msgspec's message with the field first, and with a hint about YAML's most frequent trap."""
    problem, _, path = str(error).partition(" - at `$")
    field_path = path.rstrip("`").lstrip(".")
    hint = (
        ' (quote it in YAML: "8.0")'
        if "Expected `str" in problem and any(kind in problem for kind in ("`float`", "`int`", "`bool`"))
        else ""
    )
    return f"{field_path}: {problem}{hint}" if field_path else f"{problem}{hint}"


def decode_object(document: bytes | msgspec.Raw, kind: type[_T], where: str) -> _T:
    """An object of a file. Raises InventoryError naming the object, ``where``, and the field."""
    try:
        return msgspec.json.decode(document, type=kind)
    except msgspec.DecodeError as error:
        raise InventoryError(f"{where}: {explained(error)}") from None
    except RecursionError:
        raise InventoryError(f"{where}: nested too deeply") from None


def decode_body(
    decoder: msgspec.json.Decoder[_T], body: bytes, prefix: str = "", kind: str = "ExtenderArgs"
) -> _T:
    """A request from kube-scheduler, or a part of one that begins with ``prefix``.

    ``kind`` is its name in extender/v1. Raises RequestError (400) naming the field.
    """
    try:
        # msgspec checks UTF-8 only in strings that it keeps; skipped ones must be valid, too.
        if not body.isascii():
            body.decode()
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        where = prefix + path.rstrip("`").lstrip(".")
        raise RequestError(400, f"{where.rstrip('.')}: {problem}" if where else f"body: {problem}") from None
    except msgspec.DecodeError as error:
        raise RequestError(400, f"body: {_json_problem(body, str(error), kind)}") from None
    except UnicodeDecodeError as error:
        problem = _json_problem(body, f"not UTF-8 at byte {error.start}", kind)
        raise RequestError(400, f"body: {problem}") from None
    except RecursionError:
        raise RequestError(400, "body: nested too deeply") from None


def _json_problem(body: bytes, problem: str, kind: str) -> str:
    if not body:
        return f"empty; send an extender/v1 {kind} as JSON"
    if body[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\x00" in body[:4]:
        return "not UTF-8 (UTF-16 or UTF-32?); send JSON as UTF-8"
    return problem
