"""Refusals of a Kubernetes API, as the Status objects that carry them."""

from __future__ import annotations

import msgspec


class ApiError(Exception):
    """A refused request: HTTP status, reason as in metav1.StatusReason, and the message."""

    def __init__(self, code: int, reason: str, message: str, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after_s = retry_after_s

    def body(self) -> bytes:
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        more = {"message": str(self), "reason": self.reason, "code": self.code}
        details = {"details": {"retryAfterSeconds": self.retry_after_s}} if self.retry_after_s else {}
        return msgspec.json.encode(status | more | details)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def too_old(since: int, oldest: int) -> ApiError:
    """410, in the words for a watch that starts before the history."""
    return ApiError(410, "Expired", f"too old resource version: {since} ({oldest})")
