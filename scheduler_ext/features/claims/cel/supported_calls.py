"""The functions whose results equal those of Kubernetes' CEL, and the uses of them that do not."""

from __future__ import annotations

from typing import Final

from scheduler_ext.features.claims.cel.expression_tree import (
    CONSTANT,
    DYNAMIC,
    LIST,
    QUANTITY,
    VERSION,
    ExpressionNode,
    TreeError,
)

_SEARCHES: Final = frozenset({"indexOf", "lastIndexOf"})
# Kubernetes converts constants when it compiles an expression, and refuses it if that fails.
_CONVERSIONS: Final = frozenset({"int", "uint", "double", "bool", "string"})
TO_NUMBERS: Final = frozenset({"int", "uint", "double"})
INDEX: Final = frozenset({"_[_]", "_[?_]", "_?._"})
EQUALITY: Final = frozenset({"_==_", "_!=_"})
ON_VERSIONS: Final = frozenset({"isGreaterThan", "isLessThan", "compareTo", "major", "minor", "patch"})
ON_INTEGERS: Final = frozenset({"isInteger", "asInteger", "add", "sub"})

# Functions whose results equal those of Kubernetes' CEL. The golden test compares them.
_SUPPORTED: Final = {
    *(
        "_<_",
        "_<=_",
        "_>_",
        "_>=_",
        "_&&_",
        "_||_",
        "!_",
        "-_",
        "_+_",
        "_-_",
        "_*_",
        "_/_",
        "_%_",
        "_?_:_",
        "@in",
    ),
    *("@not_strictly_false", "size", "matches", "contains", "startsWith", "endsWith"),
    *("int", "uint", "double", "string", "bool"),
    *("lowerAscii", "upperAscii", "split", "substring", "trim", "replace", "join", "indexOf", "lastIndexOf"),
    *("charAt", "orValue", "hasValue", "value", "or", "sets.contains", "sets.intersects", "sets.equivalent"),
    *("quantity", "isQuantity", "semver", "isSemver", "sign", "asApproximateFloat", "add", "sub"),
    *INDEX,
    *EQUALITY,
    *ON_VERSIONS,
    *ON_INTEGERS,
}


def check_call(node: ExpressionNode) -> None:
    """Raises TreeError, with the fix, for a call whose result may differ from that in Kubernetes."""
    name, operands = node.name, node.children
    if name not in _SUPPORTED:
        raise TreeError(f"the function {name} is not supported")
    if name in _CONVERSIONS and operands[0].kind == CONSTANT:
        raise TreeError(f"{name}() of a constant is not supported: write the value itself")
    if name in _SEARCHES and len(operands) > 2:
        raise TreeError(f"{name} with an offset is not supported: use substring")
    if name == "split" and not operands[1].constant:  # of '' it makes [''], Kubernetes []
        raise TreeError("split() without a constant separator is not supported: use contains")
    if name == "@in":
        _check_search(*operands)
    elif (
        name not in EQUALITY
        and node.type == DYNAMIC
        and any(b"kubernetes." in operand.type for operand in operands[1:])
    ):
        raise TreeError("it mixes quantities or versions with other values: compare them separately")


def _check_search(element: ExpressionNode, container: ExpressionNode) -> None:
    if QUANTITY in element.type or VERSION in element.type:
        raise TreeError("quantities and versions in a list are not supported: compare each")
    if container.kind == LIST and not container.children:  # Kubernetes does not evaluate the element
        raise TreeError("it searches an empty list: remove the search")
