"""The CEL expressions of DeviceClasses and ResourceClaims that select devices, as kube-scheduler answers
them. Those of the usual form are compared here, all others are evaluated by a feature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Final, Protocol

from scheduler_ext.core.dra.published import DeviceFacts
from scheduler_ext.feature import installed
from scheduler_ext.wire.dra.plain_selector import ADMITS, SelectorAnswer, SelectorOutcome, read_plain

# Kubernetes' limit in bytes (resource/v1, CELSelectorExpressionMaxLength).
MAX_LENGTH: Final = 10 * 1024
MAX_EXPRESSIONS: Final = 32  # resource/v1, DeviceSelectorsMaxSize
_AS_TRUTH: Final = {
    SelectorOutcome.ADMITS: True,
    SelectorOutcome.REJECTS: False,
    SelectorOutcome.FAILS: False,
}


class Expression(Protocol):
    """One expression."""

    def answer(self, device: DeviceFacts) -> SelectorAnswer:
        """Return the outcome for a device."""


class DeviceSelector:
    """All expressions of one class or request, in their order: a device must satisfy each. kube-scheduler
    stops at the first that rejects or fails, and so do the answers. `problem`: the first expression that
    this product does not evaluate, in one line; devices that an earlier expression admits are then
    unknown. `failure`: why the first device was unknown that was, or failed."""

    problem: str | None
    failure: str | None

    def __init__(self, expressions: Sequence[str]) -> None:
        """Never raises: `problem` describes an expression that cannot be read."""
        self.problem = self.failure = None
        self._expressions: list[Expression] = []
        if len(expressions) > MAX_EXPRESSIONS:
            self.problem = f"selectors: {len(expressions)} expressions: Kubernetes allows {MAX_EXPRESSIONS}"
            return
        for number, text in enumerate(expressions):
            read = _read(text)
            if isinstance(read, str):
                self.problem = f"selectors[{number}].cel.expression: {read}"
                return
            self._expressions.append(read)

    def admits(self, device: DeviceFacts) -> bool | None:
        """Return whether the device satisfies all expressions; None if that is unknown. No claim gets one for
        which an expression fails."""
        answer = self.answer(device)
        if answer.reason and self.failure is None:
            self.failure = answer.reason
        return _AS_TRUTH.get(answer.outcome)

    def answer(self, device: DeviceFacts) -> SelectorAnswer:
        """Return the outcome for a device, with the reason of a failure or of an unknown one."""
        for number, expression in enumerate(self._expressions):
            answer = expression.answer(device)
            if answer.reason:
                return answer._replace(reason=f"selectors[{number}].cel.expression: {answer.reason}")
            if answer.outcome is not SelectorOutcome.ADMITS:
                return answer
        return ADMITS if self.problem is None else SelectorAnswer(SelectorOutcome.UNKNOWN, self.problem)


def _read(text: object) -> Expression | str:
    """Return an expression, or the reason why this product does not evaluate it, with the fix."""
    if not isinstance(text, str):
        return "it is no text: write a CEL expression"
    size = len(text.encode(errors="surrogatepass"))
    if size > MAX_LENGTH:
        return f"it has {size} bytes: Kubernetes allows {MAX_LENGTH}"
    return read_plain(text) or _reader()(text)


@cache
def _reader() -> Callable[[str], Expression | str]:
    """Return the function of a feature for expressions of other forms. It is imported for the first of them,
    because its library may be missing."""
    problem = "it needs CEL: pip install 'scheduler-ext[claims]'"
    for feature in installed():
        if feature.selectors:
            try:
                read: Callable[[str], Expression | str] = import_module(feature.selectors).read_expression
            except ImportError as error:
                problem += f" ({error})"
            else:
                return read
    return lambda _text: problem
