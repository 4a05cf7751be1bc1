"""The extender: holds the latest snapshot and answers kube-scheduler's verbs from it."""

import logging
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from threading import Lock
from typing import TypeVar

import numpy as np
from cachetools import LRUCache

from scheduler_ext.core.cycle.cycle import Codes, Decision, filter_nodes, points, select_candidates
from scheduler_ext.core.cycle.placement import with_promised
from scheduler_ext.core.errors import RequestError
from scheduler_ext.core.filters import REASONS, reason_text
from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.framework.refusal import KEPT_FOR_GANG, OTHER_PLACE
from scheduler_ext.core.node.columns import Ints
from scheduler_ext.core.node.node import UNKNOWN_NODE, Node, NodeInfo
from scheduler_ext.core.node.nominated import without_kept
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest, ShareRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import Table, build_snapshot
from scheduler_ext.extender.answer import Answer, DecisionBasis
from scheduler_ext.extender.budgets import Budgets
from scheduler_ext.extender.generation import Generation, NodeViews
from scheduler_ext.extender.new_nodes import NewNodes
from scheduler_ext.extender.nominations import NOMINATED, Nominations
from scheduler_ext.extender.preemption_answers import PreemptionAnswers
from scheduler_ext.extender.preemptor import Advice, Preemptor
from scheduler_ext.extender.record import Record
from scheduler_ext.extender.refusals import Refusals
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.extender_args import (
    ExtenderArgs,
    at,
    decode_args,
    encode_filter_result,
    encode_priorities,
)
from scheduler_ext.wire.node_info import with_node
from scheduler_ext.wire.planned_annotation import may_have_only_node, only_node
from scheduler_ext.wire.pod.pod_claims import ClaimLookup, claim_names
from scheduler_ext.wire.pod.pod_identity import pod_name, pod_priority, pod_uid
from scheduler_ext.wire.pod.pod_request import pod_request

log = logging.getLogger(__name__)

# filter and prioritize carry the same bytes of a pod, one after the other.
_REMEMBERED_PODS = 64
# Larger pods are not remembered: most have 2 to 10 kB, and any client may send one.
_REMEMBERED_POD_BYTES = 64 * 1024
# A request that causes the lookup of all tables that any decision may need.
_SMALLEST_SHARE = GpuRequest(shares=ShareRequest((("", 1),)))


class Extender:
    """Answers filter and prioritize; both are safe to call from several threads. A reader decides on the
    generation that is current when it begins, and never touches the table. It shares no lock with writers but
    that of the answers of preempt."""

    def __init__(self, config: Configuration, advice: Advice | None = None) -> None:
        self.sizing = config.sizing()
        self._resources = self.sizing.resources
        self._policy = self.sizing.policy
        # For the remembered pods.
        self._lock = Lock()
        # For writers of the table.
        self._writing = Lock()
        self._table = Table({})
        # The forecast whose tables are complete.
        self._looked_up: Forecast | None = None
        self._generation: Generation | None = None
        self._seen = NodeViews(self.sizing)
        self.refusals = Refusals(self._policy)
        self.record = Record(config.inspection.decisions, config.inspection.decision_bytes)
        self.new_nodes = NewNodes(self.sizing)
        self.preemption_answers = PreemptionAnswers(self.sizing)
        self.nominations = Nominations(self.preemption_answers, self._policy)
        self.budgets = Budgets()
        """The PodDisruptionBudgets of the cluster."""
        advice = advice or Advice()
        self.preemptor = Preemptor(
            self.sizing, lambda: self.snapshot, self.preemption_answers, self.budgets, advice
        )
        self._claims: ClaimLookup | None = None
        self.asked_at = -math.inf
        """When the last request for a decision came, in monotonic seconds."""
        self._allow_unreported = config.allows_unreported()
        self._empty_victims = config.preemption.empty_victims
        self._requests: LRUCache[bytes, GpuRequest | InvalidRequest] = LRUCache(_REMEMBERED_PODS)

    @property
    def claims(self) -> ClaimLookup | None:
        """The claims of the cluster, where they are known."""
        return self._claims

    @property
    def snapshot(self) -> Snapshot | None:
        """The latest snapshot; None before the first inventory."""
        generation = self._generation
        return generation.snapshot if generation is not None else None

    def replace_nodes(
        self,
        infos: Iterable[NodeInfo],
        forecast: Forecast | None = None,
        claims: ClaimLookup | None = None,
    ) -> Snapshot:
        """Publish these nodes as the next generation, with the claims of the cluster; for one writer at a
        time. Without a `forecast` of future demand the last one stays."""
        nodes = {info.name: self._known_or_not(info) for info in infos}
        with self._writing:
            forecast = forecast or self._table.forecast
            try:
                self._table = Table(nodes, forecast=forecast, before=self._table)
            except Exception:
                self._table = Table(_without_the_impossible(nodes), forecast=forecast)
            self._claims = claims
            snapshot = self._publish()
        self.preemption_answers.observe_nodes(node.info for node in nodes.values())
        return snapshot

    def expect(self, forecast: Forecast) -> None:
        """Publish the next generation with another forecast of future demand. A forecast made for the
        `kinds` of the latest snapshot keeps no writer waiting here."""
        with self._writing:
            self._table.forecast = forecast
            if self._generation is not None:
                self._publish()

    def update_nodes(self, changed: Mapping[str, NodeInfo | None]) -> Snapshot:
        """Publish changed nodes as the next generation; None is a removed node."""
        nodes = {
            name: self._known_or_not(info) if info is not None else None for name, info in changed.items()
        }
        with self._writing:
            try:
                self._table.update(nodes)
            except Exception:
                self._table.update(_without_the_impossible(nodes))
            snapshot = self._publish()
        self.preemption_answers.observe_nodes(info for info in changed.values() if info is not None)
        return snapshot

    def _known_or_not(self, info: NodeInfo) -> Node:
        """One unreadable node must not take the others with it."""
        try:
            return self._resolved(info)
        except Exception:
            log.exception("node %s: cannot be resolved, so none of its GPUs is known", info.name)
            return _unknown(info)

    def _resolved(self, info: NodeInfo) -> Node:
        return self.sizing.resolved(with_promised(info, self.sizing))

    def _publish(self) -> Snapshot:
        before = self.snapshot
        snapshot = self._table.snapshot(before.generation + 1 if before is not None else 1)
        self._look_up(snapshot)
        self._generation = Generation(snapshot, self._policy, self._seen)
        return snapshot

    def _look_up(self, snapshot: Snapshot) -> None:
        """Build all tables that are independent of pods before decisions need them."""
        if snapshot.forecast is self._looked_up:
            # Columns of nodes, which are looked up in these tables.
            _ = snapshot.demand, snapshot.scarcity, snapshot.host_scarcity
            return
        _ = filter_nodes(_SMALLEST_SHARE, snapshot, self._policy).totals
        # It also has the new kinds of GPUs.
        self._table.forecast = self._looked_up = snapshot.forecast

    def filter(self, body: bytes, deadline: float, *, best_only: bool = False) -> Answer:
        """The reply to filter, `best_only` with the nodes that prioritize gives the most points.
        `deadline` is on the monotonic clock; past it RequestError 503."""
        args, elsewhere = _in_place(decode_args(body))
        request, generation = self._request(args), self._published()
        names, one = args.names, self.nominations.decide_nominated(args, request, generation)
        if one is not None:
            # Only this name is looked at.
            names, decision = [names[one.position]], one.decision
        else:
            decision = self._with_all_steps(self._decide(args, request, generation), names)
        _check(deadline)
        rows = decision.snapshot.rows(names)
        chosen = select_candidates(decision, rows, self._policy.max_candidates, best_only=best_only)
        passed = np.flatnonzero(chosen).tolist()
        reasons, counts = _refusals(names, decision.verdict[decision.snapshot.state_of[rows]], request)
        if reasons and generation.snapshot.planned.kept and args.nodes is None:
            self._name_kept(generation, decision, reasons, counts)
        if passed and one is not None:
            # Among all names.
            passed = [one.position]
        if not passed:
            self._remember_refusal(args, decision, rows)
        if reasons and (NOMINATED in args.raw_pod or self.preemption_answers):
            self.preemptor.refused(args.pod, reasons)
        # kube-scheduler looks for victims only if no node passes.
        found = self._rescuable(args, decision) if not passed else ()
        rescuable = {name: reasons.pop(name) for name in found if name in reasons}
        if elsewhere:
            reasons |= dict.fromkeys(elsewhere, OTHER_PLACE.text)
            counts[OTHER_PLACE.text] = len(elsewhere)
        reply = encode_filter_result(args, passed, reasons, rescuable)
        _check(deadline)
        basis = DecisionBasis(args.raw_pod, decision, rows)
        asked = len(args.names) + len(elsewhere)
        return Answer(reply, asked, len(passed), counts, _problem(args, decision), args, basis)

    def prioritize(self, body: bytes, deadline: float) -> Answer:
        """The reply to prioritize: points for exactly the requested names; 0 for a node that does not fit."""
        args = decode_args(body)
        decision = self._decide(args, self._request(args), self._published())
        _check(deadline)
        rows = decision.snapshot.rows(args.names)
        totals = decision.totals[decision.snapshot.state_of[rows]]
        scores = points(totals, decision.scored.resolution)
        reply = encode_priorities(args.names, scores.tolist())
        _check(deadline)
        basis = DecisionBasis(args.raw_pod, decision, rows)
        return Answer(reply, len(args.names), len(args.names), args=args, basis=basis)

    def _published(self) -> Generation:
        if self._generation is None:
            raise RequestError(503, "no inventory yet; try again")
        self.asked_at = time.monotonic()
        return self._generation

    def _decide(
        self, args: ExtenderArgs, request: GpuRequest | InvalidRequest, generation: Generation
    ) -> Decision:
        seen = generation.snapshot
        if seen.unsettled or seen.planned or self.preemption_answers:
            infos = self.preemption_answers.nodes_with_nominated_pods(
                seen, pod_uid(args.pod), pod_priority(args.pod)
            )
            seen = generation.snapshot_with(infos)
        if args.nodes is not None:
            return filter_nodes(request, self._dry_run(args, seen), self._policy)
        if isinstance(request, InvalidRequest):
            return filter_nodes(request, seen, self._policy)
        return generation.decide(request, seen)

    @staticmethod
    def _name_kept(
        generation: Generation, decision: Decision, reasons: dict[str, str], counts: dict[str, int]
    ) -> None:
        """Give the nodes that refuse a pod only because of room that is kept for gangs a reason of their
        own, by name and in the counts."""
        request, known, published = decision.request, decision.snapshot.nodes, generation.snapshot.nodes
        if not isinstance(request, GpuRequest):
            return
        names = [name for name in generation.unkept.nodes if name in reasons and name in known]
        # Most pods see these nodes as they are published.
        mine = {name: known[name].info for name in names if known[name] is not published[name]}
        free = {name: other for name, info in mine.items() if (other := without_kept(info)) is not info}
        alike = [name for name in names if name not in mine]
        views = [(generation.unkept, alike)] if alike else []
        views += [(generation.snapshot_with(free), list(free))] if free else []
        for seen, those in views:
            fits = generation.decide(request, seen).fits[seen.state_of[seen.rows(those)]]
            for name in compress(those, fits.tolist()):
                counts[reasons[name]] -= 1
                reasons[name] = KEPT_FOR_GANG.text
                counts[KEPT_FOR_GANG.text] = counts.get(KEPT_FOR_GANG.text, 0) + 1
        for reason in [reason for reason, count in counts.items() if not count]:
            del counts[reason]

    def _with_all_steps(self, decision: Decision, names: list[str]) -> Decision:
        """The decision; for a request with a single node, such as a nominated one, made again for that node
        alone if the search steps ran out, because preempt accepted the node in this way."""
        snapshot = decision.snapshot
        only = snapshot.nodes.get(names[0]) if len(names) == 1 else None
        if only is None or not decision.exhausted:
            return decision
        alone = build_snapshot({names[0]: only}, snapshot.generation, within=snapshot.cluster)
        return filter_nodes(decision.request, alone, self._policy)

    def _remember_refusal(self, args: ExtenderArgs, decision: Decision, rows: Ints) -> None:
        """No node passed, so the pod waits until one of them changes."""
        request, snapshot = decision.request, decision.snapshot
        if args.nodes is None and isinstance(request, GpuRequest) and not request.is_placeholder:
            cluster = snapshot.cluster
            rows = rows if snapshot.row_of is cluster.row_of else cluster.rows(args.names)
            self.refusals.remember(request, rows, cluster, time.monotonic())

    def _rescuable(self, args: ExtenderArgs, decision: Decision) -> Sequence[str]:
        """The refused nodes where preemption helps, if kube-scheduler's own is to know them."""
        if not (self._empty_victims and isinstance(decision.request, GpuRequest)):
            return ()
        return self.preemptor.rescuable(args.pod, args.names, decision.snapshot)

    def _request(self, args: ExtenderArgs) -> GpuRequest | InvalidRequest:
        """The pod's request; the last pods are known by their bytes and are not parsed again."""
        with self._lock:
            known = self._requests.get(args.raw_pod)
        if known is not None:
            return known
        try:
            request = pod_request(args.pod, self._resources, self._claims)
            if isinstance(request, GpuRequest) and any(ask.by_claim for ask in request.units):
                request = replace(request, claims_judged=True)
        except QuantityError as error:
            # Not an invalid request, but JSON in which no quantity is written.
            raise RequestError(400, f"Pod.spec: {error}") from None
        # What it asks through claims changes with the claims.
        if len(args.raw_pod) <= _REMEMBERED_POD_BYTES and not claim_names(args.pod):
            with self._lock:
                self._requests[args.raw_pod] = request
        return request

    def _dry_run(self, args: ExtenderArgs, snapshot: Snapshot) -> Snapshot:
        """A snapshot of the Node objects in the request, for this request alone. A known node (same name and
        uid) keeps its devices and holdings with the labels and allocatable in the request; any other, such as
        an autoscaler's template, follows from its labels."""
        nodes = {}
        for i, (name, node) in enumerate(zip(args.names, args.nodes or (), strict=True)):
            try:
                known, uid = snapshot.nodes.get(name), node.metadata.uid if node.metadata else None
                # An inventory without Node objects has no uids; there the name decides.
                is_same = known is not None and known.info.uid in (None, uid)
                template = NodeInfo(name, by_allocatable=self._allow_unreported)
                before = known.info if known is not None and is_same else template
                info = with_node(before, node, self._resources)
            except QuantityError as error:
                raise RequestError(400, f"Nodes.items[{i}].status: {error}") from None
            nodes[name] = self._resolved(info)
        return build_snapshot(nodes, snapshot.generation, within=snapshot.cluster)


def _in_place(args: ExtenderArgs) -> tuple[ExtenderArgs, list[str]]:
    """The request for the place of a gang's member alone, where it may have only one, and the other nodes."""
    only = only_node(args.pod) if may_have_only_node(args.raw_pod) else None
    if only is None:
        return args, []
    kept = [i for i, name in enumerate(args.names) if name == only]
    return at(args, kept), [name for name in args.names if name != only]


def _unknown(info: NodeInfo) -> Node:
    """The node with no known GPU."""
    return Node(NodeInfo(info.name, uid=info.uid, freshness="Missing"), UNKNOWN_NODE, ())


_AnyNode = TypeVar("_AnyNode", Node, Node | None)


def _without_the_impossible(nodes: Mapping[str, _AnyNode]) -> dict[str, _AnyNode]:
    """The same nodes; those with amounts that no table can hold become nodes without known GPUs."""
    kept = dict(nodes)
    for name, node in nodes.items():
        if node is None:
            continue
        try:
            Table({name: node}, spare=0)
        except Exception:
            log.exception("node %s: its amounts are impossible, so none of its GPUs is known", name)
            kept[name] = _unknown(node.info)
    return kept


def _refusals(
    names: list[str], codes: Codes, request: GpuRequest | InvalidRequest
) -> tuple[dict[str, str], dict[str, int]]:
    """The reason by refused name, and the number of names for each reason."""
    by_code = np.bincount(codes, minlength=len(REASONS) + 1).tolist()
    reasons: dict[str, str] = {}
    counts = {}
    # The most frequent reason first, because its dict is used without a copy.
    for code in sorted(range(1, len(by_code)), key=by_code.__getitem__, reverse=True):
        if not by_code[code]:
            break
        text = reason_text(code, request)
        counts[text] = by_code[code]
        part = dict.fromkeys(compress(names, (codes == code).tolist()), text)
        if reasons:
            reasons.update(part)
        else:
            reasons = part
    return reasons, counts


def _problem(args: ExtenderArgs, decision: Decision) -> str | None:
    request = decision.request
    return (
        f"pod {pod_name(args.pod)[:300]}: {request.message}" if isinstance(request, InvalidRequest) else None
    )


def _check(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise RequestError(503, "deadline exceeded; the server is overloaded")
