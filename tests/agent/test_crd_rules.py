"""The rules of the CRD and those of the reader agree on the statuses that agents write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given

from tests.agent.crd_rules import RULES, refusals
from tests.agent.gpunode_reports import reader_refusal, statuses
from tests.examples import examples
from tests.kube_objects import Json
from tests.wire.reports.gpunode_status import FULL, changed
from tests.wire.reports.test_gpunode_crd import PARTS


def rules_of(schema: Json) -> Iterator[str]:
    """The messages of all rules within a part of the CRD."""
    yield from (rule["message"] for rule in schema.get("x-kubernetes-validations", ()))
    for part in (*schema.get("properties", {}).values(), *filter(None, [schema.get("items")])):
        yield from rules_of(part)


def test_no_rule_is_missing_in_the_crd() -> None:
    assert set(rules_of(PARTS["status"])) == RULES.keys()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("summary", {"gpus": 2, "healthy": 0}),
        ("summary", {"gpus": 1, "healthy": 1}),
        ("summary", {"gpus": 1, "healthy": 0, "model": "T4"}),
        ("summary", {"gpus": 1, "healthy": 0, "memoryUsedPercent": 7}),
        ("devices[0].uuid", "MIG-a"),
    ],
)
def test_what_the_reader_does_not_read_is_refused_by_the_api_server(path: str, value: object) -> None:
    assert refusals(FULL) == []
    assert refusals(changed(path, value))


def test_the_reader_takes_whatever_the_api_server_takes() -> None:
    """The stored report of a node is its last good one, so an extender that starts finds it."""
    verdicts: Counter[tuple[bool, bool]] = Counter()

    @examples(50, long=2000)
    @given(statuses())
    def taken(status: Json) -> None:
        by_reader, by_server = reader_refusal(status), refusals(status)
        assert by_server or not by_reader, by_reader
        verdicts[bool(by_reader), bool(by_server)] += 1

    taken()
    # Not a law about nothing: many of either kind were drawn.
    assert min(verdicts[False, False], verdicts[True, True]) > 15, verdicts
