"""The load generator, a process of its own: reads a Plan as JSON on stdin, writes a Measurement on stdout.

For each pod it asks filter with every node's name, then prioritize with the names that filter returned, as
kube-scheduler does. With C connections, C pods are sent at once (a wave) and the next wave starts when all
have been answered. Every wave is sent to the extender and, byte for byte, to the no-op server, directly after
each other and in alternating order, so that a busy machine slows both alike.

One rotation of all request shapes goes first, unmeasured, and its answers are checked; measured answers are
checked for their status and for being decodable. Bodies are built and answers decoded outside the measured
time.
"""

from __future__ import annotations

import gc
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from urllib.parse import urlsplit

from benchmarks.connection import Connection, Reply, exchange
from benchmarks.replies import ReplyError, check_filter, check_prioritize, read_filter, read_prioritize
from benchmarks.workload import BenchmarkPod, Workload, prioritize_body

VERBS = ("filter", "prioritize")
# If an extender lets no node pass, prioritize is sent as many names as this project's extender would return.
FALLBACK_NAMES = 100
_KEPT_MESSAGES = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """One combination to measure. `rounds` counts rotations of all request shapes.

    `strict` means that the extender serves this workload's inventory, so that its answers can be checked.
    """

    url: str
    noop_url: str
    kind: str
    nodes: int
    connections: int
    rounds: int
    seed: int
    strict: bool
    verbs: tuple[str, ...] = VERBS
    timeout_s: float = 30.0


@dataclass(slots=True)
class VerbMeasurement:
    """Latencies of one verb in nanoseconds, with those of the no-op server, errors, and sizes of the last
    request.
    """

    verb: str
    elapsed_ns: list[int] = field(default_factory=list)
    noop_elapsed_ns: list[int] = field(default_factory=list)
    errors: int = 0
    messages: list[str] = field(default_factory=list)
    request_names: int = 0
    request_bytes: int = 0
    reply_bytes: int = 0
    connects: int = 0

    def failed(self, message: str) -> None:
        """Count an error and keep the first few messages."""
        self.errors += 1
        if len(self.messages) < _KEPT_MESSAGES:
            self.messages.append(message)


class LoadGenerator:
    """Runs one Plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._workload = Workload(plan.kind, plan.nodes, plan.seed)
        self._extender = [Connection(plan.url) for _ in range(plan.connections)]
        self._noop = [Connection(plan.noop_url) for _ in range(plan.connections)]
        self._prefix = urlsplit(plan.url).path.rstrip("/")
        self._noop_path = urlsplit(plan.noop_url).path or "/"
        self._extender_first = dict.fromkeys(VERBS, False)
        self._results = {verb: VerbMeasurement(verb) for verb in plan.verbs}
        self._warm = False

    def run(self) -> list[VerbMeasurement]:
        """Measure all rounds; one VerbMeasurement per verb."""
        pods = self._workload.pods()
        for wave in _waves(pods, self._workload.rotation, self._plan.connections):
            self._send(wave)
        self._warm = True
        gc.collect()
        gc.freeze()
        gc.disable()
        for wave in _waves(pods, self._plan.rounds * self._workload.rotation, self._plan.connections):
            self._send(wave)
        gc.enable()
        for connection in (*self._extender, *self._noop):
            connection.close()
        return list(self._results.values())

    def _send(self, pods: Sequence[BenchmarkPod]) -> None:
        bodies = [self._workload.filter_body(pod) for pod in pods]
        replies = self._interleave("filter", bodies, len(self._workload.names))
        returned = [self._read_filter(pod, reply) for pod, reply in zip(pods, replies, strict=True)]
        if "prioritize" not in self._results:
            return
        bodies = [prioritize_body(pod, names) for pod, names in zip(pods, returned, strict=True)]
        replies = self._interleave("prioritize", bodies, len(returned[-1]))
        for names, reply in zip(returned, replies, strict=True):
            self._read_prioritize(names, reply)

    def _interleave(self, verb: str, bodies: Sequence[bytes], names: int) -> list[Reply]:
        """Send one wave to the extender and the same to the no-op server; the order alternates."""
        own_path = f"{self._prefix}/{verb}"
        own = [c.request(own_path, body) for c, body in zip(self._extender, bodies, strict=False)]
        noop = [c.request(self._noop_path, body) for c, body in zip(self._noop, bodies, strict=False)]
        first = self._extender_first[verb] = not self._extender_first[verb]
        if first:
            replies = exchange(self._extender, own, self._plan.timeout_s)
        noop_replies = exchange(self._noop, noop, self._plan.timeout_s)
        if not first:
            replies = exchange(self._extender, own, self._plan.timeout_s)
        self._record(verb, replies, noop_replies)
        result = self._results[verb]
        result.request_names, result.request_bytes = names, len(bodies[-1])
        result.reply_bytes = len(replies[-1].body)
        result.connects = sum(connection.connects for connection in self._extender)
        return replies

    def _record(self, verb: str, replies: Sequence[Reply], noop_replies: Sequence[Reply]) -> None:
        result = self._results[verb]
        for who, some in (("extender", replies), ("no-op", noop_replies)):
            for reply in some:
                if reply.status != 200:
                    failure = (
                        reply.error or f"status {reply.status}: {reply.body[:200].decode(errors='replace')}"
                    )
                    result.failed(f"{who} {verb}: {failure}")
        if self._warm:
            result.elapsed_ns += [reply.elapsed_ns for reply in replies if reply.status == 200]
            result.noop_elapsed_ns += [reply.elapsed_ns for reply in noop_replies if reply.status == 200]

    def _read_filter(self, pod: BenchmarkPod, reply: Reply) -> Sequence[str]:
        """The names to send to prioritize."""
        names: Sequence[str] = ()
        if reply.status == 200:
            try:
                answer = read_filter(reply.body)
            except ReplyError as error:
                self._results["filter"].failed(str(error))
            else:
                names = answer.returned
                if self._plan.strict and not self._warm:
                    rejected = self._workload.rejected(pod.shape)
                    wrong = check_filter(answer, self._workload.names, rejected)
                    if wrong:
                        self._results["filter"].failed(f"{wrong} ({_asked(pod)})")
        return names or self._workload.names[:FALLBACK_NAMES]

    def _read_prioritize(self, names: Sequence[str], reply: Reply) -> None:
        if reply.status != 200:
            return
        try:
            hosts = read_prioritize(reply.body)
        except ReplyError as error:
            self._results["prioritize"].failed(str(error))
            return
        wrong = check_prioritize(hosts, names) if self._plan.strict and not self._warm else ""
        if wrong:
            self._results["prioritize"].failed(wrong)


def _waves(pods: Iterator[BenchmarkPod], count: int, width: int) -> Iterator[list[BenchmarkPod]]:
    left = count
    while left > 0:
        yield list(itertools.islice(pods, min(width, left)))
        left -= width


def _asked(pod: BenchmarkPod) -> str:
    asks = [dict(container) for container in pod.shape.containers]
    return f"asking {asks} with {dict(pod.shape.annotations)}"


def main() -> None:
    """Read the Plan, run it, write the measurements."""
    fields = json.load(sys.stdin)
    plan = Plan(**{**fields, "verbs": tuple(fields["verbs"])})
    json.dump([asdict(result) for result in LoadGenerator(plan).run()], sys.stdout)


if __name__ == "__main__":
    main()
