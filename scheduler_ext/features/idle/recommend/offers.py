"""What the nodes of a cluster offer: whole GPUs, parts of GPUs as memory shares, and MIG instances."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.gpu.mig_profile import resource_from_profile
from scheduler_ext.core.gpu.share_memory import NOTHING_HELD, ShareMemory
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.views.node_value import gpu_price

OfferKind = Literal["share", "mig", "model"]


class Offer(NamedTuple):
    """A GPU that gives shares, a MIG instance, or a whole GPU of a `model`. One pod can have `memory_mib` of
    it. `part` is a MIG instance's part of its GPU, `value` the price of the GPU per hour, `resource` the name
    of the instance, `on_node` the number of such GPUs of its node."""

    kind: OfferKind
    model: str
    memory_mib: int
    value: float
    part: float = 1.0
    resource: str = ""
    on_node: int = 1
    vendor: str = "nvidia"
    # (0, 0) if it is unknown.
    compute_capability: tuple[int, int] = (0, 0)

    def gpus(self, needed_mib: int) -> float:
        """The part of a GPU that so much memory takes: all of it, except for a share."""
        return needed_mib / self.memory_mib if self.kind == "share" else self.part

    def cost(self, needed_mib: int) -> float:
        """The price of that part per hour."""
        return self.value * self.gpus(needed_mib)


def offers(infos: Iterable[NodeInfo], sizing: Sizing, factor: float) -> tuple[Offer, ...]:
    """Every kind of offer once, held ones too. Nodes without a report, and those whose GPUs are shared by
    time or MPS, offer nothing here."""
    found = {
        offer
        for info in infos
        if not info.is_out and info.report is not None and info.report.sharing_strategy == "none"
        for offer in _of_node(info, sizing, factor)
    }
    return tuple(sorted(found))


def _of_node(info: NodeInfo, sizing: Sizing, factor: float) -> Iterator[Offer]:
    assert info.report is not None
    alike = Counter(device.model.name for device in info.devices if not device.mig.enabled)
    for device in info.devices:
        capability = device.compute_capability or (0, 0)
        value, model = gpu_price(info, device.model, sizing, factor), device.model.name
        if device.mig.enabled:
            slots = sum(each.size for each in device.mig.instances)
            for each in device.mig.instances if info.report.mig_strategy == "mixed" else ():
                memory_mib = device.instance_memory_mib(each)
                if memory_mib:
                    resource = resource_from_profile(each.offered_as)
                    part = each.size / slots
                    yield Offer("mig", model, memory_mib, value, part, resource, 1, device.vendor, capability)
        else:
            percent = sizing.headroom_percent if info.share_node else 0
            room = ShareMemory.of(device.memory, NOTHING_HELD, percent)
            if room.share_total:
                kind: OfferKind = "share" if info.share_node else "model"
                mib, on_node = room.share_total, alike[model]
                yield Offer(kind, model, mib, value, 1.0, "", on_node, device.vendor, capability)
