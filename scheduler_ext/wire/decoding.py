"""Bytes to values, with an error message for the author of the bytes."""

from typing import TypeVar

import msgspec

from scheduler_ext.core.errors import ClusterError, InventoryError, RequestError

_T = TypeVar("_T")


def located(error: Exception, prefix: str = "") -> tuple[str, str]:
    """The field of an error of msgspec, "" for the whole document, and the problem."""
    # Of a key, the mapping that has it.
    problem, _, path = str(error).replace(" - at `key` in `$", " - at `$").partition(" - at `$")
    return (prefix + path.rstrip("`").lstrip(".")).rstrip("."), problem


def explained(error: Exception) -> str:
    """msgspec's message with the field first, and with a hint about YAML's most frequent trap."""
    field, problem = located(error)
    if "Expected `str" in problem and any(kind in problem for kind in ("`float`", "`int`", "`bool`")):
        problem += ' (quote it in YAML: "8.0")'
    return f"{field}: {problem}" if field else problem


def decode_object(document: bytes | msgspec.Raw, kind: type[_T], where: str) -> _T:
    """An object of a file. Raises InventoryError naming the object, `where`, and the field."""
    try:
        return msgspec.json.decode(document, type=kind)
    except msgspec.DecodeError as error:
        raise InventoryError(f"{where}: {explained(error)}") from None
    except RecursionError:
        raise InventoryError(f"{where}: nested too deeply") from None


def decode_answer(kind: type[_T], body: bytes) -> _T:
    """An object from the API server. Raises ClusterError naming its kind and the field."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        name = kind.__name__.replace("Gpu", "GPU")
        raise ClusterError(f"a {name} that cannot be read: {explained(error)}") from None


def decode_body(
    decoder: msgspec.json.Decoder[_T], body: bytes, prefix: str = "", kind: str = "ExtenderArgs"
) -> _T:
    """A request from kube-scheduler, or a part of one that begins with `prefix`. `kind` is its name in
    extender/v1. Raises RequestError (400) naming the field."""
    try:
        # msgspec checks UTF-8 only in strings that it keeps; skipped ones must be valid, too.
        if not body.isascii():
            body.decode()
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        field, problem = located(error, prefix)
        raise RequestError(400, f"{field or 'body'}: {problem}") from None
    except msgspec.DecodeError as error:
        problem = str(error)
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 at byte {error.start}"
    except RecursionError:
        raise RequestError(400, "body: nested too deeply") from None
    if not body:
        problem = f"empty; send an extender/v1 {kind} as JSON"
    elif body[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\x00" in body[:4]:
        problem = "not UTF-8 (UTF-16 or UTF-32?); send JSON as UTF-8"
    raise RequestError(400, f"body: {problem}")
