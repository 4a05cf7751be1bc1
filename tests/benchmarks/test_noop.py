"""The replies of the no-op extender, beside a JSON reader."""

from __future__ import annotations

import json
import random

from benchmarks.noop import filter_reply, prioritize_reply
from benchmarks.replies import read_filter, read_prioritize


def _args(*names: str, pod: str = "{}") -> bytes:
    return f'{{"Pod":{pod},"Nodes":null,"NodeNames":{json.dumps(names, separators=(",", ":"))}}}'.encode()


def test_a_pod_that_quotes_the_key_is_not_taken_for_it() -> None:
    quoted = json.dumps({"metadata": {"annotations": {"last": '"NodeNames":["x"]'}}}, separators=(",", ":"))
    assert read_filter(filter_reply(_args("a", "b", pod=quoted), 1)).returned == ["a"]


def test_random_lists_are_answered_as_a_json_reader_would() -> None:
    rng = random.Random(5)
    for _ in range(200):
        names = [f"node-{rng.randrange(10**6)}.internal" for _ in range(rng.randrange(12))]
        limit = rng.randrange(12)
        body = _args(*names)
        assert read_filter(filter_reply(body, limit)).returned == names[: limit or None]
        assert read_prioritize(prioritize_reply(body)) == names
