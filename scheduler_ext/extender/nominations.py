"""Requests about a pod that has a place already: its nomination, or a planned place that kube-scheduler has
not seen yet."""

from typing import NamedTuple

from scheduler_ext.core.cycle.cycle import Decision
from scheduler_ext.core.node.columns import Ints
from scheduler_ext.wire.extender_args import ExtenderArgs
from scheduler_ext.wire.pod import pod_uid

# Occurs in the bytes of every pod with a nomination and of few others, so that few pods are decoded.
NOMINATED = b'"nominatedNodeName"'


def nominated_to(args: ExtenderArgs) -> str:
    """The node of a request that kube-scheduler makes first for a nominated pod: about this node alone. Empty
    for any other request."""
    if args.nodes is not None or len(args.names) != 1 or NOMINATED not in args.raw_pod:
        return ""
    status = args.pod.status
    name = args.names[0]
    return name if status is not None and status.nominated_node_name == name else ""


class KeptPlace(NamedTuple):
    """The planned place of a pod in a request: its position among the names, and whether the pod fits there;
    if kube-scheduler has left it out, it does not."""

    uid: str
    position: int
    fits: bool


def kept_place(args: ExtenderArgs, decision: Decision, rows: Ints) -> KeptPlace | None:
    """The planned place of the pod that is asked about; None without one. kube-scheduler may ask about many
    nodes nevertheless: before it has seen the nomination, or after it has refused the node itself."""
    snapshot = decision.snapshot.cluster
    if not snapshot.planned or args.nodes is not None:
        return None
    uid = pod_uid(args.pod)
    node = snapshot.planned.node_of(uid)
    if node is None:
        return None
    if node not in args.names:
        return KeptPlace(uid, -1, fits=False)
    index = args.names.index(node)
    return KeptPlace(uid, index, fits=bool(decision.fits[decision.snapshot.state_of[rows[index]]]))
