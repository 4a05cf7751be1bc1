"""The checked form of an expression, read from cel.expr.CheckedExpr, the published message of all CEL
libraries.

Source: proto/cel/expr/checked.proto and syntax.proto of github.com/google/cel-spec. Only the fields that
the analysis needs are read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

Constant: TypeAlias = bool | int | float | str | bytes | None

CONSTANT, NAME, SELECT, CALL, LIST, MAP, LOOP = "constant", "name", "select", "call", "list", "map", "loop"
_KINDS: Final = {3: CONSTANT, 4: NAME, 5: SELECT, 6: CALL, 7: LIST, 8: MAP, 9: LOOP}

# cel.expr.Type, serialized.
DYNAMIC: Final = b"\x0a\x00"
BOOL: Final = b"\x18\x01"
DOUBLE: Final = b"\x18\x04"
NULL: Final = b"\x10\x00"
MAP_TAG: Final = b"\x3a"  # with which the serialized type of a map starts
QUANTITY: Final = b"kubernetes.Quantity"  # part of the serialized type
VERSION: Final = b"kubernetes.Semver"


class TreeError(ValueError):
    """An expression with a part that this product does not read."""


@dataclass(frozen=True, slots=True)
class ExpressionNode:
    """One part of an expression. `name`: the identifier, field, function or loop variable. `children`:
    operands, the target of a call first; of a loop its range, start, condition, step and result.
    `presence`: the test `has(...)`. `type`: the checked type, as a serialized cel.expr.Type."""

    kind: str
    name: str
    children: tuple[ExpressionNode, ...]
    type: bytes
    constant: Constant = None
    presence: bool = False
    accumulator: str = ""


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a serialized protobuf message. Raises TreeError for a wire type
    that the messages of CEL do not have."""
    position = 0

    def varint() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = message[position]
            position += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while position < len(message):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
            continue
        if tag & 7 not in (1, 2):
            raise TreeError(f"the serialized expression has an unknown wire type {tag & 7}")
        size = varint() if tag & 7 == 2 else 8
        yield tag >> 3, message[position : position + size]
        position += size


def read_tree(serialized: bytes) -> ExpressionNode:
    """Read the tree of a checked expression from a google.protobuf.Any. Raises TreeError for parts that this
    product does not read, such as messages and loops with two variables."""
    checked = _bytes(dict(fields(serialized)).get(2))
    root = b""
    types: dict[int, bytes] = {}
    for number, value in fields(checked):
        if number == 3:
            entry = dict(fields(_bytes(value)))
            types[_int(entry.get(1))] = _bytes(entry.get(2))
        elif number == 4:
            root = _bytes(value)
    return _node(root, types)


def _node(message: bytes, types: dict[int, bytes]) -> ExpressionNode:
    identifier, kind, body = 0, "", b""
    for number, value in fields(message):
        if number == 2:
            identifier = _int(value)
        elif number in _KINDS:
            kind, body = _KINDS[number], _bytes(value)
    found = types.get(identifier, DYNAMIC)
    if kind == CONSTANT:
        return ExpressionNode(kind, "", (), found, constant=_constant(body))
    if kind == NAME:
        return ExpressionNode(kind, _text(dict(fields(body)).get(1)), (), found)
    if kind == SELECT:
        part = dict(fields(body))
        operand = _node(_bytes(part.get(1)), types)
        return ExpressionNode(kind, _text(part.get(2)), (operand,), found, presence=bool(part.get(3)))
    if kind == CALL:
        return _call(body, types, found)
    if kind == LIST:
        return ExpressionNode(
            kind, "", tuple(_node(_bytes(item), types) for n, item in fields(body) if n == 1), found
        )
    if kind == MAP:
        return _map(body, types, found)
    if kind == LOOP:
        return _loop(body, types, found)
    raise TreeError("the expression has a part of an unknown kind")


def _call(body: bytes, types: dict[int, bytes], found: bytes) -> ExpressionNode:
    name = ""
    target: tuple[ExpressionNode, ...] = ()
    arguments: tuple[ExpressionNode, ...] = ()
    for number, value in fields(body):
        if number == 1:
            target = (_node(_bytes(value), types),)
        elif number == 2:
            name = _text(value)
        elif number == 3:
            arguments += (_node(_bytes(value), types),)
    return ExpressionNode(CALL, name, target + arguments, found)


def _map(body: bytes, types: dict[int, bytes], found: bytes) -> ExpressionNode:
    children: tuple[ExpressionNode, ...] = ()
    for number, value in fields(body):
        if number == 1:
            raise TreeError("the expression creates a message")
        entry = dict(fields(_bytes(value)))
        if 5 in entry:
            raise TreeError("the expression creates a map with an optional entry")
        children += (_node(_bytes(entry.get(3)), types), _node(_bytes(entry.get(4)), types))
    return ExpressionNode(MAP, "", children, found)


def _loop(body: bytes, types: dict[int, bytes], found: bytes) -> ExpressionNode:
    part = dict(fields(body))
    if part.get(8):
        raise TreeError("the expression has a macro with two variables")
    children = tuple(_node(_bytes(part.get(number)), types) for number in (2, 4, 5, 6, 7))
    return ExpressionNode(LOOP, _text(part.get(1)), children, found, accumulator=_text(part.get(3)))


def _constant(body: bytes) -> Constant:
    for number, value in fields(body):
        if number == 2:
            return bool(value)
        if number in (3, 4):
            return _int(value)
        if number == 5:
            return float(struct.unpack("<d", _bytes(value))[0])
        if number == 6:
            return _text(value)
        if number == 7:
            return _bytes(value)
    return None


def _bytes(value: int | bytes | None) -> bytes:
    if isinstance(value, bytes):
        return value
    raise TreeError("the serialized expression lacks a part")


def _int(value: int | bytes | None) -> int:
    return value if isinstance(value, int) else 0


def _text(value: int | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else ""
