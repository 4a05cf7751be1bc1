"""One expression that selects devices, evaluated as in Kubernetes.

Kubernetes' own evaluation is cel/compile.go of k8s.io/dynamic-resource-allocation."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from scheduler_ext.core.dra.published import DeviceFacts
from scheduler_ext.features.claims.cel.cel_library import (
    CompileError,
    EvaluationError,
    Program,
    check_patterns,
)
from scheduler_ext.features.claims.cel.device_variables import reading_key, variables
from scheduler_ext.features.claims.cel.expression_cost import CostError, bound_cost
from scheduler_ext.features.claims.cel.expression_reads import read_parts
from scheduler_ext.features.claims.cel.expression_tree import TreeError, read_tree
from scheduler_ext.wire.dra.plain_selector import (
    ADMITS,
    REJECTS,
    SelectorAnswer,
    SelectorOutcome,
    UnreadableError,
    fails,
)

# Of all expressions together: three that read the UUIDs of 40,000 devices.
_MAX_REMEMBERED: Final = 131_072


class DeviceExpression:
    """One expression, with the answers for the parts of devices that it reads: devices mostly differ in
    parts that no expression reads, such as their UUIDs."""

    def __init__(self, text: str) -> None:
        """Raises CompileError, TreeError or CostError."""
        self._program = Program(text)
        tree = read_tree(self._program.checked)
        bound_cost(tree)
        self._reads = read_parts(tree, text)
        check_patterns(self._reads.patterns)
        self._key = reading_key(self._reads)
        self._token = object()  # in keys instead of the expression, which may be forgotten before its answers

    def answer(self, device: DeviceFacts) -> SelectorAnswer:
        """Return the outcome, remembered if a device with the same values had it."""
        try:
            key = (self._token, self._key(device))
            found = _remembered.get(key)
        except TypeError:  # an attribute of a type that Kubernetes does not have, such as a list
            return self.evaluate(device)
        if found is None:
            found = self.evaluate(device)
            if len(_remembered) >= _MAX_REMEMBERED:
                _remembered.clear()
            _remembered[key] = found
        return found

    def evaluate(self, device: DeviceFacts) -> SelectorAnswer:
        """Return the outcome without remembering it."""
        try:
            given = variables(device, self._reads)
            value = self._program.run(given.values, self._reads.tracked)
        except UnreadableError as error:
            return SelectorAnswer(SelectorOutcome.UNKNOWN, f"{error}")
        except EvaluationError as error:
            if error.is_certain and not given.lacks_domain:
                return fails(f"{error}")
            return SelectorAnswer(
                SelectorOutcome.UNKNOWN, f"{error}: this product cannot decide it as Kubernetes does"
            )
        if isinstance(value, bool):
            return ADMITS if value else REJECTS
        return SelectorAnswer(
            SelectorOutcome.FAILS, "it evaluates to a value that is neither true nor false: compare it"
        )


_remembered: Final[dict[tuple[object, object], SelectorAnswer]] = {}


@lru_cache(maxsize=256)
def read_expression(text: str) -> DeviceExpression | str:
    """Return an expression, or the reason why this product does not evaluate it, with the fix."""
    try:
        return DeviceExpression(text)
    except CompileError as error:
        return f"it cannot be compiled: {error}"
    except (TreeError, CostError, RecursionError) as error:
        return f"{error}"
