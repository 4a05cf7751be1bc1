"""The parts of a device that an expression reads, and whether it has the same value as in Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from scheduler_ext.wire.cel.expression_tree import (
    BOOL,
    CALL,
    CONSTANT,
    DOUBLE,
    DYNAMIC,
    LIST,
    LOOP,
    NAME,
    SELECT,
    Node,
    TreeError,
)

ATTRIBUTES: Final = "device.attributes"
CAPACITY: Final = "device.capacity"
DRIVER: Final = "device.driver"
MULTIPLE: Final = "device.allowMultipleAllocations"
VARIABLES: Final = frozenset({ATTRIBUTES, CAPACITY, DRIVER, MULTIPLE})

# (variable), (variable, domain) or (variable, domain, name).
Path: TypeAlias = tuple[str, ...]

_INDEX: Final = frozenset({"_[_]", "_[?_]", "_?._"})
_EQUALITY: Final = frozenset({"_==_", "_!=_"})
_ON_VERSIONS: Final = frozenset({"isGreaterThan", "isLessThan", "compareTo", "major", "minor", "patch"})
_ON_INTEGERS: Final = frozenset({"isInteger", "asInteger"})
_MESSAGE: Final = b"kubernetes."

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
    *_INDEX,
    *_EQUALITY,
    *_ON_VERSIONS,
    *_ON_INTEGERS,
}


@dataclass(slots=True)
class Reads:
    """The parts of a device that an expression reads: `names` are paths of three parts. `domains`: paths
    whose domain is an empty map if the device has none of it. `everything`: it reads a map as a whole, and
    `whole` lists the variables that it reads so. `plain`: names that it uses in another way than Kubernetes
    allows for versions; `all_plain`: any name may be. `tracked`: it asks whether quantities are
    integers."""

    names: set[Path] = field(default_factory=set)
    domains: set[Path] = field(default_factory=set)
    everything: bool = False
    whole: set[str] = field(default_factory=set)
    plain: set[Path] = field(default_factory=set)
    all_plain: bool = False
    tracked: bool = False


def read_parts(tree: Node) -> Reads:
    """Analyse an expression. Raises TreeError, whose text names the part, for an expression that this product
    does not evaluate."""
    if tree.type not in (BOOL, DYNAMIC):
        raise TreeError("it must evaluate to true or false: compare its value with something")
    walk = _Walk()
    walk.visit(tree, {})
    walk.refuse_ambiguous_types()
    return walk.reads


class _Walk:
    def __init__(self) -> None:
        self.reads = Reads()
        self._compares_quantities = False
        self._has_doubles = False
        self._makes_strings = False

    def refuse_ambiguous_types(self) -> None:
        """Raises TreeError for uses that only together have another result than in Kubernetes."""
        if self.reads.tracked and self._compares_quantities:
            raise TreeError("it compares quantities with == and uses isInteger or asInteger: use compareTo")
        if self._makes_strings and self._has_doubles:
            raise TreeError("string() in an expression with floating-point numbers is not supported")

    def visit(self, node: Node, scope: Mapping[str, Path | None]) -> None:
        self._has_doubles |= node.type == DOUBLE
        path = self._path(node, scope)
        if path is not None:
            self._use(path, plain=not node.presence)
        elif node.presence:
            self._visit_presence(node, scope)
        elif node.kind == CALL:
            self._visit_call(node, scope)
        elif node.kind == LOOP:
            self._visit_loop(node, scope)
        else:
            if node.kind == LIST and len({child.type for child in node.children}) > 1:
                raise TreeError("it has a list with values of several types")
            for child in node.children:
                self.visit(child, scope)

    def _path(self, node: Node, scope: Mapping[str, Path | None]) -> Path | None:
        """Return the path that a node reads, if its domain and its name are constant."""
        if node.kind == NAME:
            if node.name in scope:
                return scope[node.name]
            return (node.name,) if node.name in (ATTRIBUTES, CAPACITY) else None
        if node.kind == SELECT and not node.presence:
            step = node.name
        elif node.kind == CALL and node.name in _INDEX and isinstance(node.children[1].constant, str):
            step = node.children[1].constant
        else:
            return None
        parent = self._path(node.children[0], scope)
        return (*parent, step) if parent is not None and len(parent) < 3 else None

    def _use(self, path: Path, plain: bool) -> None:
        if len(path) > 1:
            self.reads.domains.add(path[:2])
        if len(path) == 3:
            self.reads.names.add(path)
            if plain:
                self.reads.plain.add(path)
            return
        self.reads.everything = True
        self.reads.all_plain |= plain
        if len(path) == 1:
            self.reads.whole.add(path[0])

    def _visit_presence(self, node: Node, scope: Mapping[str, Path | None]) -> None:
        operand = node.children[0]
        path = self._path(operand, scope)
        if path is None:
            if operand.kind == NAME and operand.name in VARIABLES | {"device"}:
                raise TreeError("has() of a field of the device itself is not supported: test an attribute")
            self.visit(operand, scope)
        elif len(path) == 2:
            self._use((*path, node.name), plain=False)
        elif len(path) == 1:
            raise TreeError("has() of a domain is not supported: test an attribute of the domain")
        else:
            self._use(path, plain=True)

    def _visit_call(self, node: Node, scope: Mapping[str, Path | None]) -> None:
        if node.name not in _SUPPORTED:
            raise TreeError(f"the function {node.name} is not supported")
        self.reads.tracked |= node.name in _ON_INTEGERS
        self._makes_strings |= node.name == "string"
        types = [child.type for child in node.children]
        if node.name in _EQUALITY:
            self._compares_quantities |= any(b"kubernetes.Quantity" in each for each in types)
        on_version = node.name in _ON_VERSIONS or (
            node.name in _EQUALITY and any(b"kubernetes.Semver" in each for each in types)
        )
        if node.name == "@in" and self._visit_membership(node, scope):
            return
        for child in node.children:
            path = self._path(child, scope)
            if path is not None and len(path) == 3 and on_version:
                self._use(path, plain=False)
            else:
                self.visit(child, scope)

    def _visit_membership(self, node: Node, scope: Mapping[str, Path | None]) -> bool:
        """Visit `"name" in map`, and return whether it was that."""
        element, container = node.children
        if b"kubernetes.Quantity" in element.type:
            self._compares_quantities = True
        path = self._path(container, scope)
        if path is None or element.kind != CONSTANT or not isinstance(element.constant, str):
            return False
        self._use((*path, element.constant) if len(path) == 2 else path, plain=len(path) == 3)
        return True

    def _visit_loop(self, node: Node, scope: Mapping[str, Path | None]) -> None:
        range_, start, condition, step, result = node.children
        if "device" in (node.name, node.accumulator):
            raise TreeError("a variable named device hides the device: rename it")
        is_binding = range_.kind == LIST and not range_.children and condition.constant is False
        if is_binding:
            path = self._path(start, scope)
            if path is None:
                self.visit(start, scope)
            elif len(path) > 1:
                self._use_binding(path)
            self.visit(result, {**scope, node.accumulator: path})
            return
        self.visit(range_, scope)
        self.visit(start, scope)
        inner = {**scope, node.name: None, node.accumulator: None}
        for child in (condition, step):
            self.visit(child, inner)
        self.visit(result, {**scope, node.accumulator: None})

    def _use_binding(self, path: Path) -> None:
        self.reads.domains.add(path[:2])
        if len(path) == 3:
            self._use(path, plain=False)
