"""How a waiting gang stands, in a sentence."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import TypeVar

from scheduler_ext.core.filters import FILTERS
from scheduler_ext.core.filters.model import Model
from scheduler_ext.core.framework.refusal import MissKind, few
from scheduler_ext.core.request.gang_request import NODE_POOL
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.request.resource_names import shown_resource
from scheduler_ext.features.gangs.planning.gang import Gang
from scheduler_ext.features.gangs.planning.gang_decisions import Verdict
from scheduler_ext.features.gangs.planning.gang_fit import GangMiss
from scheduler_ext.features.gangs.planning.plan import State

T = TypeVar("T")

RequestOf = Callable[[T], GpuRequest]
"""The GPU request of a pod's description."""


def sentence(verdict: Verdict[T], request_of: RequestOf[T]) -> str:
    """How the gang of a verdict stands: "3 of 8 members fit; 5 × H100 short"."""
    gang = verdict.gang
    assert gang is not None
    match verdict.state:
        case State.INVALID:
            return gang.problem or ""
        case State.ASSEMBLING:
            return assembling(gang)
        case State.PLANNED:
            return f"all {gang.request.size} members have places"
        case State.GIVEN_UP:
            late = f"{_begun(gang)}, and the deadline has passed: the gang is evicted whole"
            return f"{late}; {verdict.failure.why}" if verdict.failure is not None else late
        case State.UNSCHEDULABLE if not verdict.left_out and (none := no_domain(gang, verdict.miss)):
            return none
    miss = verdict.miss
    words = [] if miss is None else [nearest_miss(miss, verdict.refusals, request_of)]
    return "; ".join([*words, *_waits(verdict)])


def _waits(verdict: Verdict[T]) -> Iterator[str]:
    """What the gang waits for, and what is kept for it."""
    kept = verdict.reservation
    if verdict.failure is not None:
        times = f" (for the {verdict.failure.count}. time)" if verdict.failure.count > 1 else ""
        yield f"the last start failed{times}: {verdict.failure.why}"
    if verdict.left_out and verdict.failure is not None:
        until = datetime.fromtimestamp(verdict.failure.until, UTC).strftime("%H:%M UTC")
        yield f"{_nodes(len(verdict.left_out))} left out until {until}: {few(verdict.left_out)}"
    if verdict.state is State.BEHIND:
        yield f"behind gang {verdict.behind}, for which places are kept"
    elif verdict.state is State.IN_LINE:
        yield "the gang, or what comes before it, is still to be tried"
    elif verdict.state is State.UNSCHEDULABLE:
        yield "the gang would not fit if all other pods with GPUs left"
    elif verdict.again_at is not None:
        again = datetime.fromtimestamp(verdict.again_at, UTC).strftime("%H:%M UTC")
        longest = "the longest time allowed (nominate.gangs.keepFor)"
        yield f"places were kept for {longest}; none are until {again}, for other pods"
    elif verdict.too_much is not None:
        part, allowed = (f"{each * 100:.0f} %" for each in verdict.too_much)
        yield (
            f"no places are kept: they would be {part} of the GPUs that its pods can use, and at most "
            f"{allowed} wait for a start that is far or not known (nominate.gangs.keepPercent); it is known "
            "where the pods that run there state a max-duration"
        )
    if kept is not None:
        pods = _count(len(kept.awaited), "pod")
        yield f"places are kept on {_nodes(len(kept.nodes))}, free once {pods} left"
        if verdict.state is State.RESERVED and kept.starts_at is None:
            yield "the time is unknown, because some of these pods state no max-duration"


def no_domain(gang: Gang[T], miss: GangMiss[T] | None) -> str | None:
    """What is wrong if no node is in a domain that the gang requires; None if one is."""
    key = gang.request.required_topology
    if key is None or miss is None or miss.domain.key is not None:
        return None
    has = "is in a node pool" if key == NODE_POOL else f"has the label {key}"
    return (
        f"no node that could take a member {has}, as the gang requires; correct its required topology, "
        "or label the nodes"
    )


def assembling(gang: Gang[T]) -> str:
    """How many of the pods exist: "5 of 8 pods exist"."""
    return f"{len(gang.members)} of {gang.request.size} pods exist"


def nearest_miss(
    miss: GangMiss[T], refusals: Mapping[str, Mapping[str, int]], request_of: RequestOf[T]
) -> str:
    """What is missing where most members fit: "3 of 8 members fit in zone=a; 5 × H100 short". Where nodes
    refuse the others for another reason than their GPUs, all reasons: "3 of 8 members fit; no node for 5 ×
    H100: 11 Insufficient cpu". `refusals` are those of a Verdict."""
    where = f" in {miss.domain}" if miss.domain.key is not None else ""
    members = f"{len(miss.placed)} of {len(miss.placed) + len(miss.unplaced)} members fit{where}"
    short: Counter[str] = Counter()
    others: dict[str, list[GpuRequest]] = {}
    for member in miss.unplaced:
        request, reasons = request_of(member.ask), refusals.get(member.uid, {})
        if _lack_gpus(request, reasons):
            short.update(_amounts(request))
        elif reasons:
            counted = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
            text = ", ".join(f"{count:,} {reason}" for reason, count in counted)
            others.setdefault(text, []).append(request)
    words = [members, *([f"{_listed(short)} short"] if short else [])]
    for text, requests in others.items():
        asked: Counter[str] = Counter()
        for request in requests:
            asked.update(_amounts(request))
        words.append(f"no node for {_listed(asked) or _count(len(requests), 'member')}: {text}")
    return "; ".join(words)


def _lack_gpus(request: GpuRequest, reasons: Collection[str]) -> bool:
    """Whether all nodes that could take the pod have too few free GPUs; the amounts name the model."""
    amounts = {each.reason_text(request) for each in FILTERS if each.kind is MissKind.AMOUNT}
    return not amounts.isdisjoint(reasons) and amounts.issuperset({*reasons} - {Model.reason.text})


def _amounts(request: GpuRequest) -> Counter[str]:
    """The amounts of a request: whole GPUs by the models that the pod accepts, others by their resource."""
    found: Counter[str] = Counter()
    models = " or ".join(request.models)
    for ask in request.units:
        name = shown_resource(ask.resource)
        found[models if models and ask.profile is None else name] += max(1, ask.count)
    if request.shares is not None:
        found["MiB of GPU memory"] += request.shares.total_mib
    return found


def _listed(amounts: Mapping[str, int]) -> str:
    return ", ".join(_amount(count, name) for name, count in amounts.items())


def _amount(count: int, name: str) -> str:
    return f"{count:,} {name}" if name.startswith("MiB ") else f"{count:,} × {name}"


def _begun(gang: Gang[T]) -> str:
    return f"{len(gang.bound)} of {gang.request.size} members run"


def _nodes(count: int) -> str:
    return _count(count, "node")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
