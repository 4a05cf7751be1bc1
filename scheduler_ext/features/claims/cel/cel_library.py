"""The CEL library: compilation with Kubernetes' types, and evaluation with its functions.

The only module that imports `cel_expr_python`. An expression is checked in an environment that knows
Kubernetes' types, and evaluated in one where a quantity or a version is bytes, since the library has no
foreign values."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from cel_expr_python import cel

from scheduler_ext.features.claims.cel import selector_functions as functions
from scheduler_ext.features.claims.cel.expression_reads import ATTRIBUTES, CAPACITY, DRIVER, MULTIPLE

# The library finds these extensions by name. Version 2 of strings is Kubernetes'.
_EXTENSIONS: Final = """
name: kubernetes.device
extensions:
- {name: bindings}
- {name: optional}
- {name: sets}
- {name: strings, version: 2}
"""
# The library calls Python functions, between which another thread may run.
_one_at_a_time: Final = threading.Lock()


class CompileError(ValueError):
    """A text that the library does not accept as an expression about a device."""


class EvaluationError(ValueError):
    """An evaluation that ended with an error of the expression. `is_certain`: Kubernetes' ends with one,
    too."""

    def __init__(self, text: str, is_certain: bool) -> None:
        super().__init__(text)
        self.is_certain = is_certain


class Program:
    """A compiled expression. `checked`: its serialized cel.expr.CheckedExpr."""

    def __init__(self, expression: str) -> None:
        """Raises CompileError."""
        try:
            with _one_at_a_time:
                self.checked: bytes = _checker().compile(expression).serialize()
        # The library raises RuntimeError for a refused expression, TypeError for a text that is no UTF-8.
        except (RuntimeError, TypeError, ValueError) as error:
            raise CompileError(_first_line(str(error))) from None
        self._runnable: Any = None

    def run(self, variables: Mapping[str, object], tracked: bool) -> object:
        """Evaluate with the variables of `expression_reads`. Raises EvaluationError."""
        with _one_at_a_time:
            functions.doubt.raised = False
            try:
                if self._runnable is None:
                    self._runnable = _runner(tracked).deserialize(self.checked)
                result = self._runnable.eval(data=variables)
                is_error = result.type() == cel.Type.ERROR
                value: object = result.value()
            except (RuntimeError, TypeError, ValueError) as error:  # a limit of the library itself
                raise EvaluationError(_first_line(str(error)), is_certain=False) from None
            if is_error:
                # The library refuses 'a'.substring(0, 1), which Kubernetes does not.
                unsure = functions.doubt.raised or "substring" in str(value)
                raise EvaluationError(_first_line(str(value)), is_certain=not unsure)
            return value


def check_patterns(patterns: Iterable[str]) -> None:
    """Raises CompileError for a regular expression that cannot be read: Kubernetes checks constants."""
    for pattern in patterns:
        if r"\C" in pattern:  # one byte for RE2, an error for Go
            raise CompileError("invalid regular expression: \\C is not supported")
        try:
            _matcher().run({DRIVER: pattern}, tracked=False)
        except EvaluationError as error:
            raise CompileError(str(error)) from None


@lru_cache(maxsize=1)
def _matcher() -> Program:
    return Program(f"''.matches({DRIVER})")


def _first_line(text: str) -> str:
    """Shorten an error of the library: `INVALID_ARGUMENT: ERROR: <input>:1:1: undeclared ...` and a
    picture."""
    line = text.strip().splitlines()[0] if text.strip() else "unknown error"
    for prefix in ("INVALID_ARGUMENT: ", "UNKNOWN: ", "NOT_FOUND: ", "CANCELLED: ", "ERROR: <input>:"):
        line = line.removeprefix(prefix)
    return line[:200]


@lru_cache(maxsize=1)
def _checker() -> Any:
    quantity = cel.Type.AbstractType("kubernetes.Quantity")
    version = cel.Type.AbstractType("kubernetes.Semver")
    declared = _quantity_declarations(quantity, functions.QuantityFunctions(tracked=False))
    declared += _version_declarations(version)
    declared += [
        _both("isGreaterThan", cel.Type.BOOL, quantity, version),
        _both("isLessThan", cel.Type.BOOL, quantity, version),
        _both("compareTo", cel.Type.INT, quantity, version),
    ]
    return _environment(quantity, declared)


@lru_cache(maxsize=2)
def _runner(tracked: bool) -> Any:
    value = cel.Type.BYTES
    ours = functions.QuantityFunctions(tracked)
    declared = _quantity_declarations(value, ours)
    declared += _version_declarations(value)
    declared += [
        _member("isGreaterThan", cel.Type.BOOL, [value, value], ours.is_greater),
        _member("isLessThan", cel.Type.BOOL, [value, value], ours.is_less),
        _member("compareTo", cel.Type.INT, [value, value], ours.compare),
    ]
    return _environment(value, declared)


def _environment(quantity: Any, declared: list[Any]) -> Any:
    text = cel.Type.STRING
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(_EXTENSIONS),
        variables={
            DRIVER: text,
            MULTIPLE: cel.Type.BOOL,
            ATTRIBUTES: cel.Type.Map(text, cel.Type.Map(text, cel.Type.DYN)),
            CAPACITY: cel.Type.Map(text, cel.Type.Map(text, quantity)),
        },
        functions=declared,
    )


def _quantity_declarations(quantity: Any, ours: functions.QuantityFunctions) -> list[Any]:
    integer, text, truth = cel.Type.INT, cel.Type.STRING, cel.Type.BOOL
    return [
        _function("quantity", quantity, [[text]], [ours.quantity]),
        _function("isQuantity", truth, [[text]], [ours.is_quantity]),
        _function("sign", integer, [[quantity]], [ours.sign]),
        _member("isInteger", truth, [quantity], ours.is_integer),
        _member("asInteger", integer, [quantity], ours.as_integer),
        _member("asApproximateFloat", cel.Type.DOUBLE, [quantity], ours.as_float),
        _arithmetic("add", quantity, ours.add, ours.add_int),
        _arithmetic("sub", quantity, ours.sub, ours.sub_int),
    ]


def _version_declarations(version: Any) -> list[Any]:
    text, truth = cel.Type.STRING, cel.Type.BOOL
    return [
        _function("semver", version, [[text], [text, truth]], [functions.semver, functions.semver]),
        _function("isSemver", truth, [[text], [text, truth]], [functions.is_semver, functions.is_semver]),
        _member("major", cel.Type.INT, [version], functions.major),
        _member("minor", cel.Type.INT, [version], functions.minor),
        _member("patch", cel.Type.INT, [version], functions.patch),
    ]


def _function(
    name: str, result: Any, parameters: list[list[Any]], implementations: list[Callable[..., object]]
) -> Any:
    pairs = enumerate(zip(parameters, implementations, strict=True))
    overloads = [cel.Overload(f"{name}_{n}", result, types, False, called) for n, (types, called) in pairs]
    return cel.FunctionDecl(name, overloads)


def _member(name: str, result: Any, parameters: list[Any], implementation: Callable[..., object]) -> Any:
    return cel.FunctionDecl(name, [cel.Overload(f"{name}_member", result, parameters, True, implementation)])


def _both(name: str, result: Any, quantity: Any, version: Any) -> Any:
    """Declare a comparison of two quantities and of two versions, for the check only."""
    of = {"quantity": quantity, "version": version}
    return cel.FunctionDecl(
        name, [cel.Overload(f"{name}_{each}", result, [kind, kind], True) for each, kind in of.items()]
    )


def _arithmetic(
    name: str, quantity: Any, ours: Callable[..., object], with_integer: Callable[..., object]
) -> Any:
    return cel.FunctionDecl(
        name,
        [
            cel.Overload(f"{name}_quantity", quantity, [quantity, quantity], True, ours),
            cel.Overload(f"{name}_integer", quantity, [quantity, cel.Type.INT], True, with_integer),
        ],
    )
