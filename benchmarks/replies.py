"""Replies of extenders, read as kube-scheduler reads them: keys in any case, absent lists empty.

Checks return an empty string or one sentence with the problem.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any


class ReplyError(ValueError):
    """A reply that kube-scheduler would refuse; the message has the reason."""


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """An ExtenderFilterResult: the nodes let through, in order, and the rejected ones of both maps."""

    returned: Sequence[str]
    rejected: Sequence[str]


def read_filter(body: bytes) -> FilterAnswer:
    """The filter verb's answer, with NodeNames or else the names inside Nodes; raises ReplyError."""
    result = _keys_lowered(_decoded(body), "the filter reply")
    if result.get("error"):
        raise ReplyError(f"the filter reply carries an error: {str(result['error'])[:200]}")
    returned = result.get("nodenames")
    if returned is None:
        nodes = _keys_lowered(result.get("nodes") or {}, "Nodes")
        returned = [node["metadata"]["name"] for node in nodes.get("items") or []]
    failed = result.get("failednodes") or {}
    unresolvable = result.get("failedandunresolvablenodes") or {}
    return FilterAnswer(returned, [*failed, *unresolvable])


def read_prioritize(body: bytes) -> list[str]:
    """The hosts of a HostPriorityList, in order; raises ReplyError if a host or an integer score is
    missing.
    """
    entries = _decoded(body) or []
    if not isinstance(entries, list):
        raise ReplyError(f"the prioritize reply must be an array, got {type(entries).__name__}")
    hosts = []
    for entry in entries:
        pair = _keys_lowered(entry, "an entry of the prioritize reply")
        if not isinstance(pair.get("host"), str) or type(pair.get("score")) is not int:
            raise ReplyError(
                f"the prioritize reply has an entry without Host or integer Score: {entry!r:.200}"
            )
        hosts.append(pair["host"])
    return hosts


def check_filter(answer: FilterAnswer, asked: Sequence[str], rejected: AbstractSet[str]) -> str:
    """Whether each name is in at most one place and exactly `rejected` are refused.

    A name that is neither returned nor rejected was left out in favour of better ones, which is allowed.
    """
    answered = [*answer.returned, *answer.rejected]
    if len(set(answered)) != len(answered):
        return "filter named a node twice"
    outside = set(answered) - set(asked)
    if outside:
        return f"filter named {len(outside)} nodes outside the request, {min(outside)} for one"
    if set(answer.rejected) != rejected:
        wrongly = set(answer.rejected) ^ rejected
        return (
            f"filter rejected {len(answer.rejected)} of {len(asked)} nodes where the workload says "
            f"{len(rejected)}; {min(wrongly)} is one they disagree about"
        )
    if not answer.returned and len(rejected) < len(asked):
        return "filter returned no node although some have room"
    return ""


def check_prioritize(hosts: Iterable[str], asked: Sequence[str]) -> str:
    """Whether exactly the requested names have a score."""
    return (
        ""
        if sorted(hosts) == sorted(asked)
        else "prioritize did not score exactly the names it was asked about"
    )


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise ReplyError(f"the reply is not JSON: {error}") from error


def _keys_lowered(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ReplyError(f"{what} must be an object, got {type(value).__name__}")
    return {str(key).lower(): item for key, item in value.items()}
