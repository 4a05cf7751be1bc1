"""extender/v1: the bodies that kube-scheduler sends and the replies that it reads.

Go's structs have no JSON tags, so keys are the Go names; the unused alternative is null. Replies are single
byte strings, because kube-scheduler reuses the connection only after a Content-Length.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from scheduler_ext.core.errors import RequestError
from scheduler_ext.wire import kube
from scheduler_ext.wire.decoding import decode_body


class _NodeList(kube.KubeStruct):
    items: list[Raw] | None = None


class _ExtenderArgs(Struct, rename="pascal", gc=False):
    pod: Raw = Raw(b"null")
    nodes: _NodeList | None = None
    node_names: list[str] | None = None


class ExtenderArgs(Struct, frozen=True):
    """A filter or prioritize request: the pod and either names or whole Node objects.

    ``raw_pod`` is undecoded: kube-scheduler sends the same bytes for filter and prioritize. ``raw_nodes`` are
    the bytes of the Node objects, for the reply; None in the names form.
    """

    raw_pod: bytes
    names: list[str]
    nodes: list[kube.Node] | None = None
    raw_nodes: list[Raw] | None = None

    @property
    def pod(self) -> kube.Pod:
        """The pod, decoded at each call. Raises RequestError (400) that names the problem."""
        return decode_pod(self.raw_pod)


class _FilterResult(Struct, rename="pascal"):
    nodes: dict[str, list[Raw]] | None
    node_names: list[str] | None
    failed_nodes: dict[str, str]
    failed_and_unresolvable_nodes: dict[str, str]
    error: str = ""


class HostPriority(Struct, rename="pascal", gc=False):
    host: str
    score: int


_args_decoder = msgspec.json.Decoder(_ExtenderArgs)
_pod_decoder = msgspec.json.Decoder(kube.Pod)
_node_decoder = msgspec.json.Decoder(kube.Node)
_encoder = msgspec.json.Encoder()


def decode_pod(raw_pod: bytes) -> kube.Pod:
    """The pod of a request. Raises RequestError (400) that names the problem."""
    return decode_body(_pod_decoder, raw_pod, "Pod.")


def decode_args(body: bytes) -> ExtenderArgs:
    """A filter or prioritize request; both forms null or absent: no node, as in Go. Raises RequestError."""
    args = decode_body(_args_decoder, body)
    raw_pod = bytes(args.pod)
    if raw_pod == b"null":
        raise RequestError(400, "Pod: missing; send an extender/v1 ExtenderArgs")
    if args.nodes is None:
        return ExtenderArgs(raw_pod, args.node_names or [])
    raw = args.nodes.items or []
    nodes = [decode_body(_node_decoder, bytes(item), f"Nodes.items[{i}].") for i, item in enumerate(raw)]
    names = [(node.metadata.name if node.metadata else None) or "" for node in nodes]
    return ExtenderArgs(raw_pod, names, nodes, raw)


def encode_filter_result(
    args: ExtenderArgs, passed: list[int], refused: dict[str, str], rescuable: dict[str, str] | None = None
) -> bytes:
    """The reply to filter: the positions of nodes that passed, and why the others failed.

    A failed node is unresolvable unless it is in ``rescuable``: kube-scheduler's preemption (up to 1.37) runs
    without extenders, so it would search for victims in vain, and try the pod again hundreds of times a
    second.
    """
    nodes = {"items": [args.raw_nodes[i] for i in passed]} if args.raw_nodes is not None else None
    names = [args.names[i] for i in passed] if nodes is None else None
    return _encoder.encode(_FilterResult(nodes, names, rescuable or {}, refused))


def encode_priorities(names: Iterable[str], points: Iterable[int]) -> bytes:
    """The reply to prioritize: a bare array, one entry per requested name."""
    return _encoder.encode(list(map(HostPriority, names, points)))


encode_json = _encoder.encode
