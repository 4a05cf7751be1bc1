"""Past and present decisions about a pod: where it went, or why it waits."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from scheduler_ext.core.cycle.cycle import Decision, filter_nodes
from scheduler_ext.core.cycle.overlay import with_nodes
from scheduler_ext.core.errors import PodError, RequestError
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.claimed import claim_only_pods, claimed_gpus
from scheduler_ext.core.node.node import BoundPod, NodeInfo, PendingPod, Wait
from scheduler_ext.core.node.nominated import without_kept
from scheduler_ext.core.preemption.dry_run import without
from scheduler_ext.core.request.gang_request import GangKey
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot
from scheduler_ext.explain.explain import KubeView, diagnosed, explanation, needs_of, request_of
from scheduler_ext.explain.ineffective import gang_warnings, pod_warnings, unserved
from scheduler_ext.explain.kube_verdicts import kube_verdicts
from scheduler_ext.explain.nearest import OWN_GANG
from scheduler_ext.explain.recorded import recorded_values
from scheduler_ext.explain.sentences import request_in_words
from scheduler_ext.explain.snapshot_dump import taken
from scheduler_ext.extender.new_nodes import NewNodes
from scheduler_ext.extender.preemption_answers import PreemptionAnswers
from scheduler_ext.extender.record import Offered, Record, Recorded
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.gangs import gates_in_words
from scheduler_ext.wire.pod.pod_claims import ClaimLookup
from scheduler_ext.wire.pod.pod_identity import is_terminating, pod_name, pod_priority, pod_uid
from scheduler_ext.wire.redacted import likeness, read_redacted
from scheduler_ext.wire.snapshot_file import encode_snapshot_file
from scheduler_ext.wire.times import time_text


@dataclass(frozen=True, slots=True)
class _PodInQuestion:
    """The pod of a question, as far as it is known here."""

    pod: kube.Pod
    request: GpuRequest | InvalidRequest
    record: Recorded | None = None
    holder: BoundPod | None = None
    bound_to: str | None = None
    # Its known GPUs and MIG instances there.
    holds: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[str] = ()
    # No pod of that name waits or holds GPUs any longer.
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Likeness:
    """Equal for pods that have the same explanation. `namespace` counts because an explanation names only its
    pods; `pod` is the part that decisions read; `has_place` is the uid of a pod with a place of its own, kept
    for its gang included; `gang` is its gang, whose room it may use; `offered` are the nodes that
    kube-scheduler offered, with the id of the index of their names."""

    namespace: str
    pod: bytes
    has_place: str | None
    gang: GangKey | None
    offered: tuple[int, bytes] | None
    # As long as it is kept, no other index has the same id.
    kept: Offered | None = field(compare=False, repr=False)


class ExplainedCluster(Protocol):
    """The source of an explanation: a running extender's, or a replayed one."""

    @property
    def snapshot(self) -> Snapshot | None: ...

    def pending(self) -> Sequence[PendingPod]: ...

    def is_gone(self, uid: str) -> bool: ...

    def node_facts(self) -> Mapping[str, NodeFacts]: ...

    @property
    def claims(self) -> ClaimLookup | None: ...


@contextmanager
def _bad_request() -> Iterator[None]:
    """An unreadable field of the pod is the caller's error."""
    try:
        yield
    except PodError as error:
        raise RequestError(400, str(error)) from None


def other_scheduler(name: str, was_asked: bool, config: Configuration) -> str | None:
    """A warning for a pod that waits for a scheduler which does not call this extender, as far as known."""
    if was_asked or not name or name in config.scheduler_names:
        return None
    ours = ", ".join(config.scheduler_names)
    return f"its schedulerName is {name}, which has not asked about it; the extender serves {ours}"


class Explainer:
    """Explains the pods of a running extender. Safe to use from any thread."""

    def __init__(
        self,
        source: ExplainedCluster,
        record: Record,
        config: Configuration,
        answers: PreemptionAnswers | None = None,
        new_nodes: NewNodes | None = None,
        wait_of: Callable[[str], Wait | None] = lambda _: None,
        group_of: Callable[[str], GangKey | None] = lambda _: None,
    ) -> None:
        """`answers` are those of preempt of a running extender; `new_nodes` are its own.
        By the uid of a pod, `wait_of` says what it waits for beside a node, `group_of` names its group."""
        self._source = source
        self._record = record
        self.config = config
        self._sizing = config.sizing()
        self._answers = PreemptionAnswers(self._sizing) if answers is None else answers
        self._new_nodes = NewNodes(self._sizing) if new_nodes is None else new_nodes
        self._wait_of = wait_of
        self._group_of = group_of

    @_bad_request()
    def of_name(
        self, namespace: str, name: str, most: int | None = None, *, dry_runs: bool = True
    ) -> dict[str, Any]:
        """The Explanation of a pod that is waiting, was decided about recently, or holds GPUs, with at most
        so many nodes; `dry_runs` as in `explanation`. Raises RequestError: 404 for any other, 503 before the
        first inventory."""
        return self._explained(self._found(namespace, name), most, dry_runs=dry_runs)

    @_bad_request()
    def of_manifest(
        self, pod: kube.Pod, notes: Sequence[str] = (), most: int | None = None
    ) -> dict[str, Any]:
        """The Explanation of a pod that need not exist, with notes about it among the warnings, and with at
        most so many nodes. Raises RequestError (400) naming the problem."""
        warnings = (*notes, *gang_warnings(pod))
        answer = self._explained(_PodInQuestion(pod, self._request_of(pod), warnings=warnings), most)
        return answer | {"notes": unserved(pod, self.config)}

    @_bad_request()
    def of_waiting(self, waiting: PendingPod) -> dict[str, Any]:
        """For a waiting pod, the part of its Explanation about all nodes together: `counts`, `nearest`,
        `advice`, and the number of `nodes`. Raises RequestError."""
        pod = read_redacted(waiting.manifest)
        found = _PodInQuestion(pod, self._request_of(pod), self._record.of_pod(waiting.pod))
        decision, kube_view = self._decided(found)
        answer = diagnosed(pod, decision, kube_view, self.config, self._source.claims)
        return answer | {"nodes": len(decision.snapshot.nodes)}

    def beside_nodes(self, waiting: PendingPod) -> Wait | None:
        """What a waiting pod waits for though nodes take it: its gang, or the end of its gates."""
        if (wait := self._wait_of(waiting.pod.uid)) is not None or not waiting.gated:
            return wait
        return Wait("; ".join(gates_in_words(read_redacted(waiting.manifest))))

    def likeness(self, waiting: PendingPod) -> "Likeness":
        """All that `of_waiting` reads of a waiting pod."""
        uid, entry, snapshot = waiting.pod.uid, self._record.of_pod(waiting.pod), self._source.snapshot
        kept = snapshot.planned.node_of(uid) if snapshot is not None else None
        has_place = kept or waiting.nominated_node or waiting.planned or self._answers.of(uid)
        offered = entry.offered if entry is not None else None
        return Likeness(
            waiting.pod.namespace,
            likeness(waiting.manifest),
            uid if has_place else None,
            self._group_of(uid),
            (id(offered.names), offered.bits) if offered is not None else None,
            offered,
        )

    def snapshot_file(self) -> bytes:
        """The state that decisions follow from, packed. Raises RequestError (503) without an inventory."""
        source, snapshot = self._source, self._snapshot()
        return encode_snapshot_file(
            taken(
                snapshot,
                source.pending(),
                source.node_facts(),
                self._record,
                self.config,
                source.is_gone,
                source.claims,
            )
        )

    def _request_of(self, pod: kube.Pod) -> GpuRequest | InvalidRequest:
        return request_of(pod, self.config, self._source.claims)

    def _explained(self, found: _PodInQuestion, most: int | None, *, dry_runs: bool = True) -> dict[str, Any]:
        decision, kube_view = self._decided(found)
        kube_view = replace(kube_view, cures=self._new_nodes.cures(found.request, decision.snapshot))
        # Notes about the pod's identity come before notes about its request.
        nodes = (node.info for node in decision.snapshot.nodes.values())
        own = pod_warnings(found.pod, found.request, self._sizing.resources, nodes)
        warnings = [*found.warnings, *own]
        claims = self._source.claims
        answer = explanation(
            found.pod, decision, kube_view, self.config, warnings, claims, most, dry_runs=dry_runs
        )
        return answer | {
            "asks": request_in_words(found.request) if isinstance(found.request, GpuRequest) else None,
            "generation": decision.snapshot.generation,
            "gone": found.gone,
            "terminating": is_terminating(found.pod),
            "boundTo": found.bound_to,
            "holds": list(found.holds),
            "kubeScheduler": unschedulable_message(found.pod),
            "recorded": recorded_values(found.record) if found.record is not None else None,
        }

    def _decided(self, found: _PodInQuestion) -> tuple[Decision, KubeView]:
        decision = filter_nodes(found.request, self._snapshot_for(found), self._sizing.policy)
        if isinstance(found.request, InvalidRequest):
            return decision, KubeView()
        needs = needs_of(found.pod, self._source.claims)
        kube_view = kube_verdicts(needs, self._source.node_facts(), decision, found.request, found.record)
        return decision, replace(kube_view, kept=self._kept(decision, found.pod))

    def _kept(self, decision: Decision, pod: kube.Pod) -> dict[str, str]:
        """The nodes that refuse a pod only because of room that is kept for a gang, with the gang."""
        seen = decision.snapshot
        gangs = {name: seen.nodes[name].info for name in seen.planned.kept if name in seen.nodes}
        free = {
            name: self._sizing.resolved(other)
            for name, info in gangs.items()
            if (other := without_kept(info)) is not info and not decision.fits[seen.state_at(name)]
        }
        if not free:
            return {}
        alone = build_snapshot(free, seen.generation, within=seen.cluster)
        fits = filter_nodes(decision.request, alone, self._sizing.policy).fits
        return {name: self._gang_on(gangs[name], pod) for name in free if fits[alone.state_at(name)]}

    def _gang_on(self, info: NodeInfo, pod: kube.Pod) -> str:
        """The gang that a node has room for, in words; of another namespace, it has no name."""
        member = next(each for each in info.planned if each.expected)
        key = self._group_of(member.uid)
        if key is not None and key == self._group_of(pod_uid(pod)):
            return OWN_GANG
        namespace = pod_name(pod).partition("/")[0]
        if self.config.inspection.hide_other_namespaces and member.namespace != namespace:
            return "a gang of another namespace"
        return f"gang {key}" if key is not None else f"the gang of pod {member.namespace}/{member.name}"

    def _found(self, namespace: str, name: str) -> _PodInQuestion:
        waiting = next(
            (p for p in self._source.pending() if (p.pod.namespace, p.pod.name) == (namespace, name)), None
        )
        if waiting is not None:
            # Newer than kube-scheduler's request, and with its later changes of the pod.
            pod = read_redacted(waiting.manifest)
            # Of this pod, and not of an earlier one with the same name.
            record = self._record.of_pod(waiting.pod)
            was_asked = record is not None and record.filters > 0
            stranger = other_scheduler(waiting.scheduler_name, was_asked, self.config)
            wait = self._wait_of(waiting.pod.uid)
            warnings = (*((stranger,) if stranger else ()), *((wait.text,) if wait else ()))
            return _PodInQuestion(pod, self._request_of(pod), record, warnings=warnings)
        holder = self._holder(namespace, name)
        if holder is not None:
            record = self._record.of_pod(holder[0])
            if record is None or not record.pod:
                return _PodInQuestion(_named(holder[0]), holder[0].request, record, *holder)
            pod = read_redacted(record.pod)
            return _PodInQuestion(pod, self._request_of(pod), record, *holder)
        record = self._record.of(namespace, name)
        if record is not None and record.pod:
            pod = read_redacted(record.pod)
            gone = self._source.is_gone(record.uid)
            last = (
                f"no pod {namespace}/{name} waits for GPUs or holds any now; the last decision about a pod "
                f"of that name: uid {record.uid}, at {time_text(record.at)}"
            )
            return _PodInQuestion(
                pod, self._request_of(pod), record, warnings=(last,) if gone else (), gone=gone
            )
        raise RequestError(
            404,
            f"pod {namespace}/{name}: no pod of this name waits for GPUs or holds some here, and there is no "
            "recent decision about one; POST its manifest to ask where it would fit",
        )

    def _holder(self, namespace: str, name: str) -> tuple[BoundPod, str, Sequence[Mapping[str, Any]]] | None:
        snapshot = self._source.snapshot
        for node in snapshot.nodes.values() if snapshot is not None else ():
            for pod in (*claim_only_pods(node.info), *node.info.pods):
                if (pod.namespace, pod.name) == (namespace, name) and pod.holds:
                    return pod, node.info.name, held_devices(pod, node.info)
        return None

    def _snapshot(self) -> Snapshot:
        snapshot = self._source.snapshot
        if snapshot is None:
            raise RequestError(503, "no inventory yet; try again")
        return snapshot

    def _snapshot_for(self, found: _PodInQuestion) -> Snapshot:
        """The snapshot that this pod sees in filter; for a bound pod, without the pod itself."""
        snapshot = self._snapshot()
        infos = self._answers.nodes_with_nominated_pods(snapshot, pod_uid(found.pod), pod_priority(found.pod))
        if found.holder is not None and found.bound_to is not None:
            info = infos.get(found.bound_to, snapshot.nodes[found.bound_to].info)
            infos[found.bound_to] = without(info, [found.holder])
        own = {name: self._sizing.resolved(info) for name, info in infos.items()}
        return with_nodes(snapshot, own) if own else snapshot


def unschedulable_message(pod: kube.Pod) -> str | None:
    """kube-scheduler's own last message on an unplaced pod; None if there is none."""
    for condition in (pod.status.conditions or ()) if pod.status is not None else ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message
    return None


def _named(pod: BoundPod) -> kube.Pod:
    """A pod without a known manifest: its name, and nothing that kube-scheduler's filters read."""
    metadata = kube.ObjectMeta(name=pod.name, namespace=pod.namespace, uid=pod.uid)
    return kube.Pod(metadata=metadata, spec=kube.PodSpec(priority=pod.priority))


def held_devices(pod: BoundPod, info: NodeInfo) -> list[dict[str, Any]]:
    """The GPUs and MIG instances that the pod was given, was seen on, or has by claim."""
    given = [(container, uuid) for container, uuids in pod.devices.items() for uuid in uuids]
    seen = [
        (holder.container, uuid)
        for device in info.devices
        for uuid, holder in (
            *((device.uuid, holder) for holder in device.holders if holder.memory_mib is None),
            *((each.uuid, each.holder) for each in device.mig.instances if each.holder is not None),
        )
        if pod.is_holder(holder)
    ]
    claimed = [
        each.device.uuid or each.device.on for each in claimed_gpus(info) if pod.uid in dict(each.claim.pods)
    ]
    # The agent sees what claims hold, too.
    others = [(container, uuid) for container, uuid in given or seen if uuid not in claimed]
    return [
        *({"container": container, "uuid": uuid} for container, uuid in others),
        *({"container": None, "uuid": uuid, "by": "claim"} for uuid in claimed),
    ]
