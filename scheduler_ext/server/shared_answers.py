"""One answer for the requests that wait for each other."""

import time
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

from flask import Response, request

from scheduler_ext.server.http.body import received_at
from scheduler_ext.server.replies import compressed

T = TypeVar("T")

# The answers that are kept, of the questions that were computed last.
_MOST_QUESTIONS = 16


class SharedAnswers(Generic[T]):
    """The answers of one route that reads the whole cluster, which takes a while. Without it, an answer is
    computed for each request, even if its client never reads it, and the requests to all routes of the
    listener wait for those. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        # By question, the one computed last at the end: when the answer was begun (monotonic seconds), and
        # the answer.
        self._answers: dict[Hashable, tuple[float, T]] = {}

    def answer(self, question: Hashable, asked_at: float, compute: Callable[[], T]) -> T:
        """The answer to a question that was asked at `asked_at` (monotonic seconds): of equal questions that
        came before an answer was begun, all get that very answer, which is no older than any of them."""
        with self._lock:
            found = self._answers.get(question)
            if found is None or found[0] <= asked_at:
                self._answers.pop(question, None)
                begun_at = time.monotonic()
                self._answers[question] = found = begun_at, compute()
                if len(self._answers) > _MOST_QUESTIONS:
                    del self._answers[next(iter(self._answers))]
            return found[1]


def shared_reply(
    answers: SharedAnswers[bytes], compute: Callable[..., bytes], *question: str | int | None
) -> Response:
    """The reply to this request, whose body `compute` makes of the question as JSON."""
    body = answers.answer(question, received_at(request.environ), lambda: compute(*question))
    return compressed(Response(content_type="application/json"), body)
