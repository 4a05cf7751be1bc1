"""Answers of the active extender."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from scheduler_ext.cluster.active_extender import ActiveExtender
from scheduler_ext.cluster.client.port_forward import ANSWER_S
from scheduler_ext.core.errors import ClusterError


class FromExtender:
    """Asks its inspection listener, one connection for each question."""

    def __init__(self, extender: ActiveExtender) -> None:
        self._extender = extender

    def check(self, timeout_s: float) -> None:
        """Raises ClusterError where it cannot be asked at all."""
        self._asked("/inventory?node=", timeout_s)

    def pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        return self._extender.get(f"/explain?pod={quote(namespace, safe='')}/{quote(name, safe='')}")

    def inventory(self) -> dict[str, Any]:
        return self._asked("/inventory")

    def ledger(self) -> dict[str, Any]:
        return self._asked("/debug/ledger")

    def pods(self) -> dict[str, Any]:
        return self._asked("/pods")

    def _asked(self, path: str, timeout_s: float = ANSWER_S) -> dict[str, Any]:
        answer = self._extender.get(path, timeout_s)
        if answer is None:
            raise ClusterError(f"extender {self._extender.pod} knows no {path}: it is of an older release")
        return answer
