"""extender/v1: the victims that kube-scheduler proposes, and the reply that it reads.

With nodeCacheCapable it sends uids, otherwise whole pods; the reply has uids either way. A null among the
victims crashes kube-scheduler and an empty list of them is an error to it (up to 1.37), so neither is ever
written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from scheduler_ext.core.errors import RequestError
from scheduler_ext.core.preemption.victim_candidate import Victims
from scheduler_ext.wire import kube
from scheduler_ext.wire.decoding import decode_body

_KIND = "ExtenderPreemptionArgs"
# Go has an int64. No node has this many pods, and sums with this number must not overflow.
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Pod = TypeVar("_Pod")
# The longest possible node name is shown whole.
_SHOWN_CHARS = 253


class _Args(Struct, rename="pascal", gc=False):
    pod: Raw = Raw(b"null")
    node_name_to_victims: dict[str, Raw] | None = None
    node_name_to_meta_victims: dict[str, Raw] | None = None


class _MetaPod(Struct, gc=False):
    uid: str | None = msgspec.field(default=None, name="UID")


class _Victims(Struct, Generic[_Pod], rename="pascal", gc=False):
    pods: list[_Pod] | None = None
    violations: _Count | None = msgspec.field(default=None, name="NumPDBViolations")


class _Result(Struct, rename="pascal"):
    node_name_to_meta_victims: dict[str, _Victims[_MetaPod]]


class Proposal(Struct, frozen=True):
    """The pods that kube-scheduler would evict from one node, the most important first, and its count of
    violations.

    ``pods`` are the same victims as objects if whole pods were sent, otherwise empty.
    """

    uids: tuple[str, ...] = ()
    violations: int = 0
    pods: tuple[kube.Pod, ...] = ()


class PreemptionArgs(Struct, frozen=True):
    """A preempt request: the pod byte for byte as in filter, and the proposal for each node."""

    raw_pod: bytes
    proposals: dict[str, Proposal]

    @property
    def pod(self) -> kube.Pod:
        """The pod, decoded at each call. Raises RequestError (400) that names the problem."""
        return decode_body(_pod_decoder, self.raw_pod, "Pod.", _KIND)


_args_decoder = msgspec.json.Decoder(_Args)
_pod_decoder = msgspec.json.Decoder(kube.Pod)
_victims_decoder = msgspec.json.Decoder(_Victims[kube.Pod])
_meta_decoder = msgspec.json.Decoder(_Victims[_MetaPod])
_encoder = msgspec.json.Encoder()


def decode_preemption(body: bytes) -> PreemptionArgs:
    """A preempt request with its pod still undecoded. Raises RequestError (400) naming the field.

    A request with both forms null, empty or absent concerns no node; if both are set, the one with node names
    counts. A node without a list has no proposed victims.
    """
    args = decode_body(_args_decoder, body, kind=_KIND)
    raw_pod = bytes(args.pod)
    if raw_pod == b"null":
        raise RequestError(400, f"Pod: missing; send an extender/v1 {_KIND}")
    whole, metas = args.node_name_to_victims or {}, args.node_name_to_meta_victims or {}
    proposals = {name: _proposal(name, raw, whole=bool(whole)) for name, raw in (whole or metas).items()}
    return PreemptionArgs(raw_pod, proposals)


def _proposal(node: str, raw: Raw, *, whole: bool) -> Proposal:
    """The proposal for a node, with ``whole`` pods or their uids alone."""
    form, field = ("Victims", "metadata.uid") if whole else ("MetaVictims", "UID")
    where = f"NodeNameTo{form}.{node[:_SHOWN_CHARS]}."
    if bytes(raw) == b"null":
        return Proposal()
    pods: tuple[kube.Pod, ...] = ()
    if whole:
        victims = decode_body(_victims_decoder, bytes(raw), where, _KIND)
        pods, violations = tuple(victims.pods or ()), victims.violations
        uids = [pod.metadata.uid if pod.metadata is not None else None for pod in pods]
    else:
        metas = decode_body(_meta_decoder, bytes(raw), where, _KIND)
        uids, violations = [pod.uid for pod in metas.pods or ()], metas.violations
    for i, uid in enumerate(uids):
        if not uid:
            raise RequestError(400, f"{where}Pods[{i}].{field}: missing; a victim is known by its uid")
    return Proposal(tuple(filter(None, uids)), violations or 0, pods)


def encode_victims(chosen: Mapping[str, Victims]) -> bytes:
    """The reply to preempt: the victims on each node. Nodes that are missing from it are no candidates."""
    return _encoder.encode(
        _Result(
            {
                name: _Victims([_MetaPod(uid) for uid in victims.uids], victims.violations)
                for name, victims in chosen.items()
                if victims.uids
            }
        )
    )
