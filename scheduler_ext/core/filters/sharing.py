"""Are the GPUs shared, or not, as the pod needs?"""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from scheduler_ext.core.framework.criterion import Change, Filter, Trial, View
from scheduler_ext.core.framework.refusal import NearestMiss, Reason
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.request.wishes import ANNOTATION_PREFIX


class Sharing(Filter):
    """Refuses time-sliced and MPS-shared GPUs to pods that want exclusive ones, and the reverse. A pod of
    several GPUs wants exclusive ones unless it accepts any: more replicas give no more compute
    (NVIDIA k8s-device-plugin, README, "Shared Access to GPUs")."""

    name = "sharing"
    reason = Reason(
        "node(s) had GPUs in another sharing mode",
        "The pod wants exclusive GPUs, or several GPUs, and these are time-sliced or MPS-shared; or it wants"
        " a shared resource and these are not shared.",
        "For exclusive or several GPUs: drop gpu.scheduler-ext.io/sharing: exclusive, set it to any, or use"
        " nodes without time-slicing. For a shared resource: use nodes that share their GPUs.",
    )
    relaxed: ClassVar = {"sharing": lambda _request, _trial: None}

    def applies(self, request: GpuRequest) -> bool:
        return _needs_exclusive(request) or _names_shared(request)

    def passes(self, view: View) -> Bools:
        node = view.snapshot.node
        passed = view.everywhere(True)
        if _needs_exclusive(view.request):
            passed &= ~node.shared
        if _names_shared(view.request):
            # A node without GPUs has no sharing mode: another filter refuses it.
            passed &= node.shared | (node.devices == 0)
        return passed

    def miss(self, view: View, node: Node) -> NearestMiss:
        needed, have = ("exclusive", "shared") if node.state.shared else ("shared", "exclusive")
        return NearestMiss(self.name, None, needed, have, "sharing")

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        if node.state.shared:
            return f"{node.info.name} shares its GPUs by time-slicing or MPS; the pod needs whole GPUs"
        return f"{node.info.name} does not share its GPUs; the pod needs a shared one"

    def smaller(self, request: GpuRequest, _trial: Trial) -> Iterator[Change]:
        """Shared GPUs for a pod of several that did not exclude them."""
        if request.sharing is None and _needs_exclusive(request):
            yield f"with {ANNOTATION_PREFIX}sharing: any", replace(request, sharing="any")


def _needs_exclusive(request: GpuRequest) -> bool:
    if request.sharing is None:
        return any(ask.count > 1 for ask in request.whole)
    return request.asks_gpu and request.sharing == "exclusive"


def _names_shared(request: GpuRequest) -> bool:
    return any(ask.resource.endswith(".shared") for ask in request.units)
