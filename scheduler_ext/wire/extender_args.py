"""extender/v1: the bodies that kube-scheduler sends and the replies that it reads.

Go's structs have no JSON tags, so keys are the Go names; the unused alternative is null. Replies are single
byte strings, because kube-scheduler reuses the connection only after a Content-Length.

For preempt it sends uids with nodeCacheCapable, otherwise whole pods; the reply has uids either way. A null
among the victims crashes kube-scheduler and an empty list of them is an error to it (up to 1.37), so neither
is ever written."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from scheduler_ext.core.errors import RequestError
from scheduler_ext.core.preemption.victim_candidate import Victims
from scheduler_ext.wire import kube
from scheduler_ext.wire.decoding import decode_body

_PREEMPTION = "ExtenderPreemptionArgs"
# Go has an int64. No node has this many pods, and sums with this number must not overflow.
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Pod = TypeVar("_Pod")
# The longest possible node name is shown whole.
_SHOWN_CHARS = 253


class _NodeList(kube.KubeStruct):
    items: list[Raw] | None = None


class _ExtenderArgsBody(Struct, rename="pascal", gc=False):
    pod: Raw = Raw(b"null")
    nodes: _NodeList | None = None
    node_names: list[str] | None = None


class _OfPod(Struct, frozen=True, dict=True):
    """A request about a pod, which is decoded when it is read first: its bytes are the same in each of its
    requests, and mostly they are enough."""

    raw_pod: bytes

    @cached_property
    def pod(self) -> kube.Pod:
        """The pod. Raises RequestError (400) that names the problem."""
        return decode_pod(self.raw_pod)


class ExtenderArgs(_OfPod, frozen=True):
    """A filter or prioritize request: the pod and either names or whole Node objects. `raw_nodes` are the
    bytes of the Node objects, for the reply; None in the names form."""

    names: list[str]
    nodes: list[kube.NodeObject] | None = None
    raw_nodes: list[Raw] | None = None


class _FilterResult(Struct, rename="pascal"):
    nodes: dict[str, list[Raw]] | None
    node_names: list[str] | None
    failed_nodes: dict[str, str]
    failed_and_unresolvable_nodes: dict[str, str]
    error: str = ""


class HostPriority(Struct, rename="pascal", gc=False):
    host: str
    score: int


class _PreemptionArgsBody(Struct, rename="pascal", gc=False):
    pod: Raw = Raw(b"null")
    node_name_to_victims: dict[str, Raw] | None = None
    node_name_to_meta_victims: dict[str, Raw] | None = None


class _MetaPod(Struct, gc=False):
    uid: str | None = msgspec.field(default=None, name="UID")


class _VictimsBody(Struct, Generic[_Pod], rename="pascal", gc=False):
    pods: list[_Pod] | None = None
    violations: _Count | None = msgspec.field(default=None, name="NumPDBViolations")


class Proposal(Struct, frozen=True):
    """The pods that kube-scheduler would evict from one node, the most important first, and its count of
    violations. `pods` are the same victims as objects if whole pods were sent, otherwise empty."""

    uids: tuple[str, ...] = ()
    violations: int = 0
    pods: tuple[kube.Pod, ...] = ()


class PreemptionArgs(_OfPod, frozen=True):
    """A preempt request: the pod, and the proposal for each node."""

    proposals: dict[str, Proposal]


_args_decoder = msgspec.json.Decoder(_ExtenderArgsBody)
_pod_decoder = msgspec.json.Decoder(kube.Pod)
_node_decoder = msgspec.json.Decoder(kube.NodeObject)
_preemption_decoder = msgspec.json.Decoder(_PreemptionArgsBody)
_victims_decoder = msgspec.json.Decoder(_VictimsBody[kube.Pod])
_meta_decoder = msgspec.json.Decoder(_VictimsBody[_MetaPod])
_encoder = msgspec.json.Encoder()


def decode_pod(raw_pod: bytes) -> kube.Pod:
    """The pod of a request. Raises RequestError (400) that names the problem."""
    return decode_body(_pod_decoder, raw_pod, "Pod.")


def _raw_pod(pod: Raw, kind: str) -> bytes:
    if bytes(pod) == b"null":
        raise RequestError(400, f"Pod: missing; send an extender/v1 {kind}")
    return bytes(pod)


def decode_args(body: bytes) -> ExtenderArgs:
    """A filter or prioritize request; both forms null or absent: no node, as in Go. Raises RequestError."""
    args = decode_body(_args_decoder, body)
    raw_pod = _raw_pod(args.pod, "ExtenderArgs")
    if args.nodes is None:
        return ExtenderArgs(raw_pod, args.node_names or [])
    raw = args.nodes.items or []
    nodes = [decode_body(_node_decoder, bytes(item), f"Nodes.items[{i}].") for i, item in enumerate(raw)]
    names = [(node.metadata.name if node.metadata else None) or "" for node in nodes]
    return ExtenderArgs(raw_pod, names, nodes, raw)


def at(args: ExtenderArgs, positions: list[int]) -> ExtenderArgs:
    """The request for some of its nodes."""
    return ExtenderArgs(
        args.raw_pod,
        [args.names[i] for i in positions],
        [args.nodes[i] for i in positions] if args.nodes is not None else None,
        [args.raw_nodes[i] for i in positions] if args.raw_nodes is not None else None,
    )


def encode_filter_result(
    args: ExtenderArgs, passed: list[int], refused: dict[str, str], rescuable: dict[str, str] | None = None
) -> bytes:
    """The reply to filter: the positions of nodes that passed, and why the others failed. A failed node is
    unresolvable unless it is in `rescuable`: kube-scheduler's preemption (up to 1.37) runs without
    extenders, so it would search for victims in vain, and try the pod again hundreds of times a second."""
    nodes = {"items": [args.raw_nodes[i] for i in passed]} if args.raw_nodes is not None else None
    names = [args.names[i] for i in passed] if nodes is None else None
    return _encoder.encode(_FilterResult(nodes, names, rescuable or {}, refused))


def encode_priorities(names: Iterable[str], points: Iterable[int]) -> bytes:
    """The reply to prioritize: a bare array, one entry per requested name."""
    return _encoder.encode(list(map(HostPriority, names, points)))


encode_json = _encoder.encode


def decode_preemption(body: bytes) -> PreemptionArgs:
    """A preempt request with its pod still undecoded. Raises RequestError (400) naming the field. A request
    with both forms null, empty or absent concerns no node; if both are set, the one with node names counts. A
    node without a list has no proposed victims."""
    args = decode_body(_preemption_decoder, body, kind=_PREEMPTION)
    raw_pod = _raw_pod(args.pod, _PREEMPTION)
    whole, metas = args.node_name_to_victims or {}, args.node_name_to_meta_victims or {}
    proposals = {name: _proposal(name, raw, whole=bool(whole)) for name, raw in (whole or metas).items()}
    return PreemptionArgs(raw_pod, proposals)


def _proposal(node: str, raw: Raw, *, whole: bool) -> Proposal:
    """The proposal for a node, with `whole` pods or their uids alone."""
    form, field = ("Victims", "metadata.uid") if whole else ("MetaVictims", "UID")
    where = f"NodeNameTo{form}.{node[:_SHOWN_CHARS]}."
    if bytes(raw) == b"null":
        return Proposal()
    pods: tuple[kube.Pod, ...] = ()
    if whole:
        victims = decode_body(_victims_decoder, bytes(raw), where)
        pods, violations = tuple(victims.pods or ()), victims.violations
        uids = [pod.metadata.uid if pod.metadata is not None else None for pod in pods]
    else:
        metas = decode_body(_meta_decoder, bytes(raw), where)
        uids, violations = [pod.uid for pod in metas.pods or ()], metas.violations
    for i, uid in enumerate(uids):
        if not uid:
            raise RequestError(400, f"{where}Pods[{i}].{field}: missing; a victim is known by its uid")
    return Proposal(tuple(filter(None, uids)), violations or 0, pods)


def encode_victims(chosen: Mapping[str, Victims]) -> bytes:
    """The reply to preempt: the victims on each node. Nodes that are missing from it are no candidates."""
    metas = {
        name: _VictimsBody([_MetaPod(uid) for uid in victims.uids], victims.violations)
        for name, victims in chosen.items()
        if victims.uids
    }
    return _encoder.encode({"NodeNameToMetaVictims": metas})
