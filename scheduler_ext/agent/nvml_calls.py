"""Handling of NVML calls that return no value: the failure concerns a value, a GPU or the node, and is logged
once.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import Any

from scheduler_ext.agent.nvml_errors import DeviceLost, NotReadable, NotThere, NvmlError, error_of

log = logging.getLogger("scheduler_ext.agent.nvml")


class Calls(ABC):
    """Calls by their names in pynvml."""

    def __init__(self) -> None:
        self._logged: set[tuple[str, str]] = set()
        # Failures that may be transient. Values read while this number grew are not kept.
        self.passing_failures = 0

    @abstractmethod
    def _ask(self, function: str, *arguments: object) -> Any:
        """The value of a call; raises NvmlError."""

    def _of_node(self, function: str) -> Any:
        """A value of the node; whatever NVML returns, no GPU is at fault."""
        try:
            return self._ask(function)
        except (NotReadable, NotThere, DeviceLost):
            return None

    def _of_gpu(self, function: str, *arguments: object) -> Any:
        """A value of a GPU that the GPU may not have."""
        try:
            return self._ask(function, *arguments)
        except (NotReadable, NotThere):
            return None

    def _optional(self, function: str, *arguments: object) -> Any:
        try:
            return self._ask(function, *arguments)
        except NotReadable:
            return None

    def _text(self, function: str, info: Any, field: str) -> str | None:
        """A text inside a structure, which pynvml decodes only on access."""
        try:
            return str(getattr(info, field))
        except UnicodeDecodeError:
            self._garbled(function)
            return None

    def _garbled(self, function: str) -> NotReadable:
        error = NotReadable("its text is not UTF-8")
        error.absent = True
        self._log_once(function, error)
        return error

    def _ours(self, function: str, code: int, text: str) -> NvmlError:
        error = error_of(code, text)
        if isinstance(error, NotReadable) and not error.absent and not error.timeout:
            self.passing_failures += not error.denied
            self._log_once(function, error)
        return error

    def _log_once(self, function: str, error: NotReadable) -> None:
        """Log once per function, because the agent reads every few seconds."""
        if (function, error.text) not in self._logged:
            self._logged.add((function, error.text))
            fix = "; the agent needs CAP_SYS_ADMIN to report it" if error.denied else ""
            log.warning("%s: %s%s", function, error.text, fix)
