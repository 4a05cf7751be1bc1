"""An upper bound of the work of an evaluation, since files pass no API server that limits it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler_ext.features.claims.cel.expression_tree import (
    BOOL,
    CONSTANT,
    LIST,
    LOOP,
    MAP,
    NAME,
    SELECT,
    ExpressionNode,
)
from scheduler_ext.wire.dra.plain_selector import MAX_TEXT

# Kubernetes' limit (resource/v1, CELSelectorExpressionMaxCost), in about the same units.
MAX_COST: Final = 1_000_000
# The largest map of attributes that an evaluation accepts.
MAX_ENTRIES: Final = 128

_PRODUCTS: Final = frozenset({"replace", "join", "matches"})
_CHOICES: Final = frozenset({"_?_:_", "_[_]", "_[?_]", "_?._"})


class CostError(ValueError):
    """An expression that may take too long or too much memory."""


def bound_cost(tree: ExpressionNode) -> None:
    """Raises CostError for an expression whose evaluation may cost more than the limit, whatever the
    device."""
    _Bound().size(tree, {})


class _Bound:
    def __init__(self) -> None:
        self._spent = 0
        self._times = 1

    def size(self, node: ExpressionNode, scope: Mapping[str, int]) -> int:
        """Return the largest size of a value (characters, or elements with all that they contain), and add
        its work."""
        found = self._loop(node, scope) if node.kind == LOOP else self._simple(node, scope)
        self._spent += self._times * found
        if self._spent > MAX_COST:
            raise CostError("it may take too long or too much memory: make it simpler")
        return found

    def _simple(self, node: ExpressionNode, scope: Mapping[str, int]) -> int:
        if node.kind == CONSTANT:
            return 1 + (len(node.constant) if isinstance(node.constant, (str, bytes)) else 0)
        if node.kind == NAME:
            return scope.get(node.name, MAX_ENTRIES)
        sizes = [self.size(child, scope) for child in node.children]
        if node.kind in (LIST, MAP):
            return 1 + sum(sizes)
        if node.kind == SELECT or node.name in _CHOICES:
            return max([MAX_TEXT, *sizes])
        if node.name in _PRODUCTS:
            return self._product(node.name, sizes)
        return 1 if node.type == BOOL else 1 + sum(sizes)

    def _product(self, name: str, sizes: list[int]) -> int:
        product = 1
        for size in sizes:
            product *= size
        if name == "matches":  # RE2 takes time in proportion to text and pattern
            self._spent += self._times * product // 16
            return 1
        return product

    def _loop(self, node: ExpressionNode, scope: Mapping[str, int]) -> int:
        range_, start, condition, step, result = node.children
        count = self.size(range_, scope)
        first = self.size(start, scope)
        if range_.kind == LIST and not range_.children:  # cel.bind
            return self.size(result, {**scope, node.accumulator: first})
        inner = {**scope, node.name: max(count, MAX_TEXT), node.accumulator: first}
        before, self._times = self._times, self._times * count
        if self._times > MAX_COST:
            raise CostError("it may take too long or too much memory: make it simpler")
        self.size(condition, inner)
        grown = first + count * self.size(step, inner)
        self._times = before
        return self.size(result, {**scope, node.accumulator: grown})
