"""Events about nodes: no agent or an old report, and shares that cannot be placed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.cluster.events.inventory_events import InventoryEvents
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from tests.core.reported import NAMES, SHARE, WHOLE, bound, device, node, wants

PLACED = bound("placed", wants(1000, SHARE), devices={"main": ("GPU-0",)})
UNPLACED = bound("unplaced", wants(1000, SHARE))


class Told:
    """The Events about nodes."""

    def __init__(self, not_labelling: str | None = None) -> None:
        self.names: list[str] = []
        self.about: list[tuple[str | None, str]] = []
        self.reasons: list[str] = []
        self.notes: list[str] = []
        self.nodes = InventoryEvents(self.warn, NAMES, lambda: not_labelling)

    def warn(self, name: str, uid: str | None, reason: str, note: str, about: str) -> None:
        self.names.append(name)
        self.about.append((uid, about))
        self.reasons.append(reason)
        self.notes.append(note)


def shared(*pods: BoundPod, plugin: int = 0) -> NodeInfo:
    """A node of shares with one GPU, and so many GPUs of a device plugin."""
    allocatable = {WHOLE: plugin, SHARE: 70_000}
    return replace(node(device(0), pods=pods), uid="node-uid", share_node=True, allocatable=allocatable)


def node_in(state: str, name: str = "n") -> NodeInfo:
    return NodeInfo(name, report=Report((device(0),)), freshness=state)


class TestNodesWithoutAnAgent:
    def test_it_is_not_said_to_have_an_old_report_as_well(self) -> None:
        told = Told("the extender may not")
        told.nodes.follow({"n": NodeInfo("n", freshness="Missing")}, {"n"})
        assert told.reasons == ["GPUNodeUnlabelled"]
        told.nodes.follow({"n": NodeInfo("n", freshness="Missing")})
        assert told.reasons[1:] == ["GPUInventoryStale"], "its agent has yet to report"

    def test_nothing_is_said_while_the_extender_labels_it(self) -> None:
        told = Told()
        told.nodes.follow({"n": NodeInfo("n")}, {"n"})
        assert told.reasons == []

    @pytest.mark.parametrize(
        ("allowed", "takes"),
        [
            pytest.param(False, "it takes no pod with GPUs after inventory.missingAfter", id="refuse"),
            pytest.param(True, "it takes whole GPUs and MIG instances by its allocatable alone", id="allow"),
        ],
    )
    def test_the_note_has_the_effect_and_the_command(self, allowed: bool, takes: str) -> None:
        told = Told("the extender may not")
        told.nodes.follow({"n": NodeInfo("n", by_allocatable=allowed)}, {"n"})
        command = "kubectl label node n gpu.scheduler-ext.io/agent=true; the extender may not"
        assert told.notes[0].endswith(f"{takes}: {command}")


class TestOldReports:
    def test_the_note_has_the_cause_and_the_step(self) -> None:
        told = Told()
        told.nodes.follow({"n": NodeInfo("n", freshness="Missing")})
        assert told.notes == [
            "no agent has reported on it: it takes no pod with GPUs; see why no agent reports on n: `kubectl "
            "-n gpu-scheduler-agent get pods --field-selector spec.nodeName=n`, and the log of that pod"
        ]

    def test_a_recovered_node_is_reported_no_more(self) -> None:
        told = Told()
        stale = node_in("Stale")
        told.nodes.follow({"n": stale})
        told.nodes.follow({})
        assert told.names == ["n", "n"]
        told.nodes.follow({"n": node_in("Fresh")})
        told.nodes.follow({"n": stale})
        told.nodes.follow({"n": None})
        assert told.names == ["n"] * 3

    def test_many_nodes_in_trouble_are_one_event(self) -> None:
        told = Told()
        told.nodes.follow({f"n{i}": node_in("Missing", f"n{i}") for i in range(50)})
        assert told.names == ["n0"]
        assert told.notes[0].endswith("; 49 more nodes have the same problem")


class TestNodesOfShares:
    @pytest.mark.parametrize(
        ("info", "reasons"),
        [
            pytest.param(shared(PLACED), [], id="nothing of one that is as it is to be"),
            pytest.param(shared(PLACED, UNPLACED), ["ShareWithoutGPU"], id="of one on an unknown GPU"),
            pytest.param(
                shared(plugin=1), ["SharedByDevicePlugin"], id="of a device plugin that is there, too"
            ),
            pytest.param(
                shared(UNPLACED, plugin=1), ["ShareWithoutGPU"], id="of the pods first, where there is both"
            ),
            pytest.param(
                replace(shared(plugin=1), share_node=False), [], id="nothing of a node that is not labelled"
            ),
        ],
    )
    def test_the_reports(self, info: NodeInfo, reasons: list[str]) -> None:
        told = Told()
        told.nodes.follow({"n": info})
        assert told.reasons == reasons

    def test_pods_are_named_and_counted_until_they_are_gone(self) -> None:
        told = Told()
        told.nodes.follow({"n": shared(UNPLACED, bound("other", wants(5, SHARE)))})
        assert told.notes[0].endswith(": ns/unplaced, ns/other")
        assert told.nodes.unplaced == {"n": 2}
        # Another note is another Event.
        assert told.about == [("node-uid", told.notes[0])]
        told.nodes.follow({"n": shared()})
        assert (told.reasons, told.nodes.unplaced) == (["ShareWithoutGPU"], {})
