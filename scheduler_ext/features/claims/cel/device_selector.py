"""The CEL expressions of DeviceClasses and ResourceClaims that select devices, as kube-scheduler answers
them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler_ext.core.dra.published import DeviceFacts
from scheduler_ext.features.claims.cel.device_expression import (
    ADMITS,
    Answer,
    DeviceExpression,
    Outcome,
    read_expression,
)

MAX_EXPRESSIONS: Final = 32  # resource/v1, DeviceSelectorsMaxSize
_AS_TRUTH: Final = {Outcome.ADMITS: True, Outcome.REJECTS: False, Outcome.FAILS: False}


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
        self._expressions: list[DeviceExpression] = []
        if len(expressions) > MAX_EXPRESSIONS:
            self.problem = f"selectors: {len(expressions)} expressions: Kubernetes allows {MAX_EXPRESSIONS}"
            return
        for number, text in enumerate(expressions):
            read = _checked(text)
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

    def answer(self, device: DeviceFacts) -> Answer:
        """Return the outcome for a device, with the reason of a failure or of an unknown one."""
        for number, expression in enumerate(self._expressions):
            answer = expression.answer(device)
            if answer.reason:
                return answer._replace(reason=f"selectors[{number}].cel.expression: {answer.reason}")
            if answer.outcome is not Outcome.ADMITS:
                return answer
        return ADMITS if self.problem is None else Answer(Outcome.UNKNOWN, self.problem)


def _checked(text: object) -> DeviceExpression | str:
    return read_expression(text) if isinstance(text, str) else "it is no text: write a CEL expression"
