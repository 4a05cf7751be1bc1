"""Events about nodes that should take shares and cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.cluster.events.inventory_events import InventoryEvents
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from tests.core.reported import NAMES, SHARE, WHOLE, bound, device, node, wants

PLACED = bound("placed", wants(1000, SHARE), devices={"main": ("GPU-0",)})
UNPLACED = bound("unplaced", wants(1000, SHARE))


def shared(*pods: BoundPod, plugin: int = 0) -> NodeInfo:
    """A node of shares with one GPU, and so many GPUs of a device plugin."""
    allocatable = {WHOLE: plugin, SHARE: 70_000}
    return replace(node(device(0), pods=pods), uid="node-uid", share_node=True, allocatable=allocatable)


class Told:
    """The Events on node n."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.notes: list[str] = []
        self.nodes = InventoryEvents(self.warn, NAMES)

    def warn(self, name: str, uid: str | None, reason: str, note: str, about: str) -> None:
        assert (name, uid, about) == ("n", "node-uid", note)
        self.reasons.append(reason)
        self.notes.append(note)


@pytest.mark.parametrize(
    ("info", "reasons"),
    [
        pytest.param(shared(), [], id="nothing of one that is as it is to be"),
        pytest.param(shared(PLACED), [], id="nor of a share whose GPU is known"),
        pytest.param(shared(PLACED, UNPLACED), ["ShareWithoutGPU"], id="of one on an unknown GPU"),
        pytest.param(shared(plugin=1), ["SharedByDevicePlugin"], id="of a device plugin that is there, too"),
        pytest.param(
            shared(UNPLACED, plugin=1), ["ShareWithoutGPU"], id="of the pods first, where there is both"
        ),
        pytest.param(
            replace(shared(plugin=1), share_node=False), [], id="nothing of a node that is not labelled"
        ),
    ],
)
def test_the_reports(info: NodeInfo, reasons: list[str]) -> None:
    told = Told()
    told.nodes.follow({"n": info})
    assert told.reasons == reasons


def test_pods_are_named_and_counted() -> None:
    told = Told()
    told.nodes.follow({"n": shared(UNPLACED, bound("other", wants(5, SHARE)))})
    assert told.notes[0].endswith(": ns/unplaced, ns/other")
    assert told.nodes.unplaced == {"n": 2}


@pytest.mark.parametrize("after", [None, shared()], ids=["it is gone", "the pod is gone"])
def test_nothing_is_reported_when_it_is_over(after: NodeInfo | None) -> None:
    told = Told()
    told.nodes.follow({"n": shared(UNPLACED)})
    told.nodes.follow({"n": after})
    assert told.reasons == ["ShareWithoutGPU"]
    assert told.nodes.unplaced == {}
