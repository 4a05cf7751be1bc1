"""The replies of the no-op extender, beside a JSON reader."""

from __future__ import annotations

import json
import random

from benchmarks.noop import filter_reply, prioritize_reply
from benchmarks.replies import read_filter, read_prioritize


def test_random_lists_are_answered_as_a_json_reader_would() -> None:
    """With a pod that quotes the key before them."""
    quoted = json.dumps({"metadata": {"annotations": {"last": '"NodeNames":["x"]'}}}, separators=(",", ":"))
    rng = random.Random(5)
    for _ in range(200):
        names = [f"node-{rng.randrange(10**6)}.internal" for _ in range(rng.randrange(12))]
        limit = rng.randrange(12)
        body = (
            f'{{"Pod":{quoted},"Nodes":null,"NodeNames":{json.dumps(names, separators=(",", ":"))}}}'.encode()
        )
        assert read_filter(filter_reply(body, limit)).returned == names[: limit or None]
        assert read_prioritize(prioritize_reply(body)) == names
