"""The parts of a device that an expression reads, and whether it has the same value as in Kubernetes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from scheduler_ext.features.claims.cel.expression_tree import (
    BOOL,
    CALL,
    DOUBLE,
    DYNAMIC,
    LIST,
    LOOP,
    MAP_TAG,
    NAME,
    NULL,
    QUANTITY,
    SELECT,
    VERSION,
    ExpressionNode,
    TreeError,
)
from scheduler_ext.features.claims.cel.supported_calls import (
    EQUALITY,
    INDEX,
    ON_INTEGERS,
    ON_VERSIONS,
    TO_NUMBERS,
    check_call,
)

ATTRIBUTES: Final = "device.attributes"
CAPACITY: Final = "device.capacity"
DRIVER: Final = "device.driver"
MULTIPLE: Final = "device.allowMultipleAllocations"

# (variable), (variable, domain) or (variable, domain, name). The domain OF_DRIVER is the driver's.
Path: TypeAlias = tuple[str, ...]
OF_DRIVER: Final = "\0"

_OF_MAPS: Final = frozenset({"size", "hasValue"})


@dataclass(slots=True)
class Reads:
    """The parts of a device that an expression reads. `names`: paths of three parts. `domains`: paths whose
    map is empty if the device has nothing of the domain. `everything`: variables that it reads with all
    names; `whole`: those whose domains it asks for. `plain`: names that it uses in a way that Kubernetes
    does not allow for versions; `all_plain`: any name may be. `tracked`: it asks whether quantities are
    integers. `patterns`: its constant regular expressions. `only_versions` and `no_bools`: names where the
    library accepts more types than Kubernetes."""

    names: set[Path] = field(default_factory=set)
    domains: set[Path] = field(default_factory=set)
    everything: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)
    plain: set[Path] = field(default_factory=set)
    all_plain: bool = False
    tracked: bool = False
    patterns: set[str] = field(default_factory=set)
    only_versions: set[Path] = field(default_factory=set)
    no_bools: set[Path] = field(default_factory=set)


def read_parts(tree: ExpressionNode, expression: str) -> Reads:
    """Analyse an expression. Raises TreeError, whose text names the part, for an expression that this product
    does not evaluate."""
    if tree.type not in (BOOL, DYNAMIC):
        raise TreeError("it must evaluate to true or false: compare its value with something")
    walk = _Walk()
    walk.visit(tree, {})
    walk.refuse_ambiguous_types()
    # The library reads `has(device.driver)` as `device.driver`, and its tree does not show it.
    if len(re.findall(r"\bhas\b", expression)) != walk.presence_tests:
        raise TreeError("has() of a field of the device itself is not supported: test an attribute")
    return walk.reads


class _Walk:
    def __init__(self) -> None:
        self.reads = Reads()
        self.presence_tests = 0
        self._compares_quantities = False
        self._has_odd_texts = False
        self._makes_strings = False

    def refuse_ambiguous_types(self) -> None:
        """Raises TreeError for uses that only together have another result than in Kubernetes."""
        if self.reads.tracked and self._compares_quantities:
            raise TreeError(
                "it compares quantities with == beside isInteger, asInteger, add or sub: use compareTo"
            )
        if self._makes_strings and self._has_odd_texts:
            raise TreeError("string() in an expression with floating-point numbers or null is not supported")

    def visit(self, node: ExpressionNode, scope: Mapping[str, Path | None]) -> None:
        self._has_odd_texts |= node.type in (DOUBLE, NULL)
        self.presence_tests += node.presence
        path = self._path(node, scope)
        if path is not None:
            self._use(path)
        elif node.presence:
            self._visit_presence(node, scope)
        elif node.kind == CALL:
            self._visit_call(node, scope)
        elif node.kind == LOOP:
            self._visit_loop(node, scope)
        else:
            if node.kind == LIST:
                self._check_list(node, scope)
            elif node.constant in (math.inf, -math.inf):
                raise TreeError("it has a number that is too large: write a smaller one")
            for child in node.children:
                self.visit(child, scope)

    def _path(self, node: ExpressionNode, scope: Mapping[str, Path | None]) -> Path | None:
        """Return the path that a node reads, if its domain and its name are constant."""
        if node.kind == NAME:
            if node.name in scope:
                return scope[node.name]
            return (node.name,) if node.name in (ATTRIBUTES, CAPACITY) else None
        if node.kind == SELECT and not node.presence:
            step = node.name
        elif node.kind == CALL and node.name in INDEX and isinstance(node.children[1].constant, str):
            step = node.children[1].constant
        elif node.kind == CALL and node.name in INDEX and node.children[1].name == DRIVER:
            step = OF_DRIVER
        else:
            return None
        parent = self._path(node.children[0], scope)
        if step == OF_DRIVER and parent is not None and len(parent) != 1:
            return None
        return (*parent, step) if parent is not None and len(parent) < 3 else None

    def _use(self, path: Path, plain: bool = True) -> None:
        if len(path) > 1:
            self.reads.domains.add(path[:2])
        if len(path) == 3:
            self.reads.names.add(path)
            if plain:
                self.reads.plain.add(path)
            return
        self.reads.everything.add(path[0])
        self.reads.all_plain |= plain and path[0] == ATTRIBUTES
        if len(path) == 1:
            self.reads.whole.add(path[0])

    def _visit_presence(self, node: ExpressionNode, scope: Mapping[str, Path | None]) -> None:
        operand = node.children[0]
        path = self._path(operand, scope)
        if path is None and operand.type.startswith(MAP_TAG):
            self.visit(operand, scope)
        elif path is not None and len(path) == 2:
            self._use((*path, node.name), plain=False)
        else:
            raise TreeError("has() is supported for attributes and capacities only: test one of a domain")

    def _check_list(self, node: ExpressionNode, scope: Mapping[str, Path | None]) -> None:
        """Kubernetes refuses lists of several types, which the library does not."""
        types = {child.type for child in node.children}
        unclear = DYNAMIC in types and any(self._path(child, scope) is None for child in node.children)
        if len(types) > 1 or (unclear and len(node.children) > 1):
            raise TreeError("it has a list with values of several types: compare with each value")

    def _visit_call(self, node: ExpressionNode, scope: Mapping[str, Path | None]) -> None:
        check_call(node)
        self.reads.tracked |= node.name in ON_INTEGERS
        self._makes_strings |= node.name == "string"
        if node.name in EQUALITY:
            self._visit_equality(node, scope)
        elif node.name in TO_NUMBERS:
            self._visit_conversion(node, scope)
        on_version = node.name in ON_VERSIONS or (
            node.name in EQUALITY and any(VERSION in child.type for child in node.children)
        )
        if node.name == "@in" and self._visit_membership(node, scope):
            return
        if node.name == "matches" and isinstance(pattern := node.children[-1].constant, str):
            self.reads.patterns.add(pattern)
        for child in node.children:
            path = self._path(child, scope)
            if path is not None and (on_version if len(path) == 3 else node.name in _OF_MAPS):
                self._use(path, plain=False)
            else:
                self.visit(child, scope)

    def _visit_equality(self, node: ExpressionNode, scope: Mapping[str, Path | None]) -> None:
        """Check the types of two values that are compared: Kubernetes' quantities and versions, if they are
        on the left, fail beside a value of another type, and quantities beside the result of add or sub."""
        left, right = node.children
        right_path = self._path(right, scope)
        if QUANTITY in left.type or QUANTITY in right.type:
            self._compares_quantities = True
            is_plain = right_path is not None or right.name == "quantity"
            if left.type != right.type or not is_plain:
                raise TreeError("it compares quantities in a way that fails in Kubernetes: use compareTo")
        elif VERSION in left.type and left.type != right.type:
            if right_path is None or len(right_path) < 3:
                raise TreeError("it compares a version with a value of another type: use compareTo")
            self.reads.only_versions.add(right_path)

    def _visit_conversion(self, node: ExpressionNode, scope: Mapping[str, Path | None]) -> None:
        (value,) = node.children
        path = self._path(value, scope)
        if value.type == BOOL or (value.type == DYNAMIC and (path is None or len(path) < 3)):
            raise TreeError(f"{node.name}() of this value is not supported: use it for numbers and strings")
        if path is not None:
            self.reads.no_bools.add(path)

    def _visit_membership(self, node: ExpressionNode, scope: Mapping[str, Path | None]) -> bool:
        """Visit `"name" in map`, and return whether it was that."""
        element, container = node.children
        path = self._path(container, scope)
        if path is None or len(path) == 3:
            return False
        self.visit(element, scope)
        is_name = len(path) == 2 and isinstance(element.constant, str)
        self._use((*path, str(element.constant)) if is_name else path, plain=False)
        return True

    def _visit_loop(self, node: ExpressionNode, scope: Mapping[str, Path | None]) -> None:
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
        path = self._path(range_, scope)
        if path is not None and len(path) < 3:  # the variable is a key
            self._use(path, plain=False)
        else:
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
