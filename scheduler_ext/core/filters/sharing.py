"""Are the GPUs shared, or not, as the pod needs?"""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from scheduler_ext.core.framework.criterion import Change, Filter, Trial, View
from scheduler_ext.core.framework.refusal import NearestMiss, Reason
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node, NodeState
from scheduler_ext.core.request.constraints import ANNOTATION_PREFIX
from scheduler_ext.core.request.request import GpuRequest, UnitRequest

_SLICES = "MIG instances"


class Sharing(Filter):
    """Refuses time-sliced and MPS-shared GPUs, and MIG instances that are handed out as GPUs, to pods that
    want exclusive ones, and whole GPUs to pods that want shared ones. A pod of several GPUs wants exclusive
    ones unless it accepts any: more replicas give no more compute (NVIDIA k8s-device-plugin, README, "Shared
    Access to GPUs"), and a process runs on one MIG instance only (MIG User Guide, "CUDA Device Enumeration").
    """

    name = "sharing"
    reason = Reason(
        "node(s) had GPUs in another sharing mode",
        "The pod wants exclusive GPUs, or several GPUs, and these are time-sliced, MPS-shared, or MIG"
        " instances that are handed out as GPUs; or it wants a shared resource and these are not shared.",
        "For exclusive or several GPUs: drop gpu.scheduler-ext.io/sharing: exclusive, set it to any, or use"
        " nodes with whole GPUs. For a shared resource: use nodes that share their GPUs.",
    )
    relaxed: ClassVar = {"sharing": lambda _request, _trial: None}

    def applies(self, request: GpuRequest) -> bool:
        return _needs_exclusive(request) or _names_shared(request)

    def passes(self, view: View) -> Bools:
        node = view.snapshot.node
        passed = view.everywhere(True)
        shared = _shared(view)
        if _needs_exclusive(view.request):
            passed &= ~(shared | node.sliced)
        if _names_shared(view.request):
            # A node without GPUs has no sharing mode: another filter refuses it.
            passed &= shared | (node.devices == 0)
        return passed

    def miss(self, view: View, node: Node) -> NearestMiss:
        shared = _is_shared(view.request, node.state)
        if _needs_exclusive(view.request) and (shared or node.state.sliced):
            have = "shared" if shared else _SLICES
            return NearestMiss(self.name, None, "exclusive", have, "sharing")
        return NearestMiss(self.name, None, "shared", "exclusive", "sharing")

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        if miss.have == "shared":
            return f"{node.info.name} shares its GPUs by time-slicing or MPS; the pod needs whole GPUs"
        if miss.have == _SLICES:
            return f"{node.info.name} hands out MIG instances as GPUs; the pod needs whole GPUs"
        return f"{node.info.name} does not share its GPUs; the pod needs a shared one"

    def smaller(self, request: GpuRequest, _trial: Trial) -> Iterator[Change]:
        """Shared GPUs for a pod of several that did not exclude them."""
        if request.sharing is None and _needs_exclusive(request):
            yield f"with {ANNOTATION_PREFIX}sharing: any", replace(request, sharing="any")


class Replicas(Filter):
    """Refuses nodes whose device plugin gives a container one replica of a shared GPU, to pods with a
    container of more. The kubelet would refuse them at their admission (UnexpectedAdmissionError), and their
    controller would create others for ever. Source: k8s-device-plugin, ValidateRequest in internal/rm/rm.go,
    and the one of GKE's (node_labels.one_replica).
    """

    name = "replicas"
    reason = Reason(
        "node(s) had shared GPUs with one replica per container",
        "A container requests several replicas of GPUs that are shared, and the device plugin gives each"
        " container one: under MPS, on GKE, and with failRequestsGreaterThanOne under time-slicing.",
        "Request one GPU for each container, or use nodes with whole GPUs. If the device plugin gives more,"
        " label the node gpu.scheduler-ext.io/fail-requests-greater-than-one=false.",
    )

    def applies(self, request: GpuRequest) -> bool:
        return any(_in_one(ask) > 1 for ask in request.units)

    def passes(self, view: View) -> Bools:
        passed: Bools = ~(view.snapshot.node.one_replica & _shared(view))
        return passed

    def miss(self, view: View, node: Node) -> NearestMiss:
        most = max(map(_in_one, view.request.units))
        return NearestMiss(self.name, None, most, 1, "replicas for one container")

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        source = node.info.report or node.info.estimate
        strategy = "MPS" if source is not None and source.sharing_strategy == "mps" else "time-slicing"
        return (
            f"{node.info.name} shares its GPUs by {strategy}, and its device plugin refuses a container of"
            f" {miss.needed:,} replicas"
        )


def _in_one(ask: UnitRequest) -> int:
    """The most that one container requests of the device plugin."""
    return 0 if ask.by_claim else ask.in_one or ask.count


def _needs_exclusive(request: GpuRequest) -> bool:
    if request.sharing is None:
        return any(ask.count > 1 for ask in request.whole)
    return request.asks_gpu and request.sharing == "exclusive"


def _is_shared(request: GpuRequest, of: NodeState) -> bool:
    """Whether what a pod asks is shared on a node."""
    return of.shared_instances if _asks_instances(request) else of.shared


def _shared(view: View) -> Bools:
    """The same, `[state]`."""
    node = view.snapshot.node
    return node.shared_instances if _asks_instances(view.request) else node.shared


def _asks_instances(request: GpuRequest) -> bool:
    return any(ask.profile is not None for ask in request.units)


def _names_shared(request: GpuRequest) -> bool:
    return any(ask.resource.endswith(".shared") for ask in request.units)
