"""The nodes that came nearest to accepting a pod that they refuse: the first is the first thing to change."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import IntEnum
from fractions import Fraction
from heapq import nsmallest
from typing import Any

from scheduler_ext.core.cycle.cycle import FITS, Decision
from scheduler_ext.core.filters import BY_NAME, FILTER_OF, REASONS, reason_text
from scheduler_ext.core.framework.refusal import KEPT_FOR_GANG, MissKind
from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX
from scheduler_ext.core.intree import InTreeRejection, NodeFacts, PodNeeds
from scheduler_ext.core.intree.resource_fit import shortages
from scheduler_ext.core.node.node import Node, NodeState
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest
from scheduler_ext.core.request.resource_names import vendor_of

OWN_GANG = "the pod's own gang"
_REMEMBERED = 65_536
# kube-scheduler's filters about the node itself, in their order; the first entry stands for an unknown one of
# them.
_ABOUT_THE_NODE = ("NotOffered", "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity")

# The missing part of a request on the nodes of a state, 0 to 1.
Lacks = dict[tuple[GpuRequest, NodeState], float]
# How near a refusal is: its kind, and among mismatches the position of the filter.
_Stage = tuple["_Obstacle", int]


class _Obstacle(IntEnum):
    """The obstacle between a pod and a node, the farthest first."""

    NO_GPUS = 0
    TWO_OBSTACLES = 1
    AMOUNT_IT_NEVER_HAS = 2
    OUR_MISMATCH = 3
    MISMATCH_OF_THE_NODE = 4
    PASSES_BY_ITSELF = 5
    AMOUNT = 6


@dataclass(frozen=True, slots=True)
class RefusingNode:
    """A node (or `alike` ones) that refuses a request: `code` is the verdict of the extender's filters (FITS:
    only kube-scheduler's refuse), `facts` is the node as kube-scheduler's filters see it. The extender
    refuses a node that is `kept` only because of a gang that waits: "gang ml/train"."""

    node: Node
    request: GpuRequest | InvalidRequest
    code: int
    in_tree: InTreeRejection | None = None
    facts: NodeFacts | None = None
    alike: int = 1
    kept: str | None = None

    @property
    def reason(self) -> str:
        """kube-scheduler's reason comes first, because its filters run first."""
        if self.in_tree is not None:
            return self.in_tree.reason
        return KEPT_FOR_GANG.text if self.kept is not None else reason_text(self.code, self.request)

    @property
    def remedy(self) -> str:
        """What helps in general, or kube-scheduler's reason itself."""
        if self.in_tree is not None:
            return self.in_tree.reason
        return (KEPT_FOR_GANG if self.kept is not None else REASONS[self.code - 1]).remedy


def nearest(
    refused: Iterable[RefusingNode],
    decision: Decision,
    needs: PodNeeds,
    ours: frozenset[str],
    cache: Lacks | None = None,
) -> RefusingNode | None:
    """The first of `nearest_first`; None without any."""
    return next(iter(nearest_first(refused, 1, decision, needs, ours, cache)), None)


def nearest_first(
    refused: Iterable[RefusingNode],
    most: int,
    decision: Decision,
    needs: PodNeeds,
    ours: frozenset[str],
    cache: Lacks | None = None,
) -> list[RefusingNode]:
    """The refusals that came nearest to a fit, at most so many. One obstacle is nearer than two. Of single
    ones, the nearest is an amount that others hold, then a state that ends by itself (a change in progress, a
    late report), then a mismatch of the node (kube-scheduler's), then one of its GPUs (the extender's), each
    ordered by the position of the filter, and last an amount that the node does not even have when empty. Of
    amounts, sizes and versions the smallest missing part is nearest; of equal ones a node with GPUs of the
    requested vendor, then one with MIG instances or for memory shares if the pod requests them, the most
    frequent reason, then a node that an administrator does not keep without an agent, then the first name.
    `decision` is about these nodes; `ours` are resources
    that kube-scheduler leaves to the extender; `cache` is kept between calls about the same nodes."""
    assert isinstance(decision.request, GpuRequest)
    stages: dict[_Stage, list[RefusingNode]] = {}
    counts: Counter[str] = Counter()
    for each in refused:
        counts[each.reason] += each.alike
        stages.setdefault(_stage(each, decision), []).append(each)
    of_mig = any(ask.profile is not None for ask in decision.request.units)
    of_shares = decision.request.shares is not None
    vendors = {vendor for ask in decision.request.units if (vendor := vendor_of(ask.resource)) is not None}
    found: list[RefusingNode] = []
    for stage in sorted(stages, reverse=True):
        if len(found) >= most:
            break
        near = stages[stage]
        graded = _graded(*stage)
        lacks = [_lacks(each, decision, needs, ours, cache) if graded else 1.0 for each in near]
        ranked = nsmallest(
            most - len(found),
            zip(lacks, near, strict=True),
            key=lambda pair: (
                pair[0],
                bool(vendors) and vendors.isdisjoint(each.model.vendor for each in pair[1].node.state.slots),
                of_mig and not _has_mig(pair[1].node),
                of_shares and not pair[1].node.info.share_node,
                -counts[pair[1].reason],
                pair[1].node.info.agent_label == "keeps away",
                pair[1].node.info.name,
            ),
        )
        found += [each for _, each in ranked]
    return found


def _graded(kind: _Obstacle, code: int) -> bool:
    """Whether the node that misses by least is the nearest of a stage."""
    amounts = _Obstacle.AMOUNT, _Obstacle.AMOUNT_IT_NEVER_HAS
    return kind in amounts or (kind is _Obstacle.OUR_MISMATCH and FILTER_OF[code].kind is MissKind.SIZE)


def _has_mig(node: Node) -> bool:
    return any(unit.resource.startswith(MIG_PREFIX) for slot in node.state.slots for unit in slot.units)


def _stage(refused: RefusingNode, decision: Decision) -> _Stage:
    request, rejection = decision.request, refused.in_tree
    assert isinstance(request, GpuRequest)
    if rejection is not None:
        if refused.code != FITS or not rejection.alone:
            return _Obstacle.TWO_OBSTACLES, 0
        if rejection.plugin in _ABOUT_THE_NODE:
            return _Obstacle.MISMATCH_OF_THE_NODE, _ABOUT_THE_NODE.index(rejection.plugin)
        return (_Obstacle.AMOUNT if rejection.resolvable else _Obstacle.AMOUNT_IT_NEVER_HAS), 0
    if refused.kept is not None:
        return _Obstacle.AMOUNT, 0
    miss = FILTER_OF[refused.code].kind
    if miss is MissKind.AMOUNT and not refused.node.state.gpus:
        return _Obstacle.NO_GPUS, 0
    has_when_empty = _has_when_empty(refused.node, request)
    if miss is MissKind.AMOUNT:
        return (_Obstacle.AMOUNT if has_when_empty else _Obstacle.AMOUNT_IT_NEVER_HAS), 0
    state = decision.snapshot.state_at(refused.node.info.name)
    if miss is MissKind.PASSING and decision.obstacles[state] == 1:
        return _Obstacle.PASSES_BY_ITSELF, 0
    # The device plugin withdraws unhealthy GPUs, so there are fewer than after their repair.
    if miss is MissKind.UNHEALTHY or has_when_empty:
        return _Obstacle.OUR_MISMATCH, refused.code
    return _Obstacle.TWO_OBSTACLES, 0


def _has_when_empty(node: Node, request: GpuRequest) -> bool:
    """Whether a node has the requested amounts at all, held or not, as far as reported."""
    sizes = [unit.memory_mib for slot in node.state.slots for unit in slot.units if unit.memory_mib]
    if sizes and request.min_free_mib > max(sizes):
        return False
    if request.shares is not None and not (node.state.offers_shares and node.state.gpus):
        return False
    asked = [ask.resource for ask in request.units]
    if node.info.allocatable is not None and not any(map(node.info.by_claim, asked)):
        return all(node.info.limit(ask.resource) >= ask.count for ask in request.units)
    offered: Counter[str] = Counter()
    for slot in node.state.slots:
        for unit in slot.units:
            offered[unit.resource] += round(1 / unit.gpu_part) if unit.gpu_part else 1
    # An estimate has one slot for all GPUs; the possible number of MIG instances is unknown.
    least = node.state.gpus if node.state.estimated else 0
    return all(
        offered[ask.resource] > 0
        if ask.profile is not None
        else max(offered[ask.resource], least) >= ask.count
        for ask in request.units
    )


def _lacks(
    refused: RefusingNode, decision: Decision, needs: PodNeeds, ours: frozenset[str], cache: Lacks | None
) -> float:
    if refused.in_tree is not None:
        assert refused.facts is not None
        facts = refused.facts
        short = shortages(
            needs.requests,
            allocatable=facts.allocatable,
            requested=facts.requested,
            pod_count=facts.pod_count,
            ignore_resources=ours,
        )
        return max(
            (float((each.needed - max(each.free, Fraction(0))) / each.needed) for each in short), default=1.0
        )
    if refused.kept is not None:
        return 0.0
    assert isinstance(decision.request, GpuRequest)
    key = decision.request, refused.node.state
    if cache is not None and key in cache:
        return cache[key]
    miss = decision.nearest_miss(refused.node.info.name)
    lacking = BY_NAME[miss.criterion].lacks(miss) if miss is not None else 1.0
    if cache is not None:
        if len(cache) >= _REMEMBERED:
            cache.clear()
        cache[key] = lacking
    return lacking


def miss_of(refused: RefusingNode, decision: Decision) -> dict[str, Any] | None:
    """The nearest miss of the first filter that refuses, as plain values; None if it has no numbers."""
    rejection = refused.in_tree
    if rejection is None:
        if refused.kept is not None:
            return None
        miss = decision.nearest_miss(refused.node.info.name)
        return asdict(miss) if miss is not None else None
    if rejection.needed is None and rejection.have is None:
        return None
    return {
        "criterion": rejection.plugin,
        "device": None,
        "needed": rejection.needed,
        "have": rejection.have,
        "unit": "",
    }
