"""Filter for pods that have a planned place, and for the others beside them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace as changed
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.cycle import overlay
from scheduler_ext.core.filters.counts import GpuCount
from scheduler_ext.core.framework.refusal import KEPT_FOR_GANG
from scheduler_ext.core.node.node import BoundPod
from scheduler_ext.core.snapshot.table import Table
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.pod.cached_pod import pending_pod
from tests.extender.foreseeing import read
from tests.extender.preempting import extender_on, filtered, infos_of, until
from tests.kube_objects import SHARE, Json, gpu, gpu_node, names_body, node, nodes_body, pod

WHOLE = "nvidia.com/gpu"
NAMES = [f"n{i}" for i in range(6)]
ROOM = {WHOLE: "1", SHARE: "81920"}


def asking(uid: str, priority: int = 0, nominated: str | None = None, **amounts: str) -> Json:
    """A pod of one GPU that waits."""
    made = pod(uid, {WHOLE: "1"} if not amounts else {SHARE: amounts["share"]}, priority=priority)
    made["metadata"]["uid"] = uid
    made["status"] |= {"nominatedNodeName": nominated} if nominated else {}
    return made


def planned_pod(manifest: Json) -> BoundPod:
    return pending_pod(read(manifest)[0], Configuration().resource_names()).pod


class Planned:
    """An extender on six nodes of one GPU each."""

    def __init__(self) -> None:
        objects = [each for name in NAMES for each in (gpu_node(name, [gpu(0)]), node(name, ROOM))]
        self.infos = infos_of(*objects)
        self.extender = extender_on(*objects)

    def plan(self, node: str, *manifests: Json) -> None:
        """Keep places on a node for these pods alone."""
        info = changed(self.infos[node], planned=tuple(map(planned_pod, manifests)))
        self.extender.update_nodes({node: info})

    def fitting(self, manifest: Json, names: list[str] = NAMES) -> list[str]:
        return filtered(self.extender, manifest, names)[0]


def refused(there: Planned, manifest: Json) -> dict[str, str]:
    """The nodes that refuse a pod, with the reasons, which are counted alike."""
    answer = there.extender.filter(names_body(manifest, NAMES), until())
    reply = json.loads(answer.body)
    found: dict[str, str] = reply["FailedNodes"] | reply["FailedAndUnresolvableNodes"]
    assert answer.rejected == Counter(found.values())
    return found


def test_room_that_a_gang_waits_for_is_no_place_of_its_member_yet() -> None:
    """A member without a gate that kube-scheduler tries meanwhile must not end what is kept for it."""
    there = Planned()
    kept = changed(planned_pod(asking("p")), expected=True)
    there.extender.update_nodes({"n3": changed(there.infos["n3"], planned=(kept,))})
    assert there.fitting(asking("p")) == NAMES
    assert there.fitting(asking("p"), NAMES[:3]) == NAMES[:3]
    assert there.extender.nominations.take_misfits() == []
    assert refused(there, asking("other")) == {"n3": KEPT_FOR_GANG.text}
    assert "n3" in there.fitting(asking("urgent", priority=1))


def test_only_nodes_that_would_take_the_pod_are_refused_for_the_sake_of_a_gang() -> None:
    there = Planned()
    kept = changed(planned_pod(asking("p")), expected=True)
    full = changed(there.infos["n2"], pods=(planned_pod(asking("r")),))
    both = changed(there.infos["n3"], planned=(kept, planned_pod(asking("q"))))
    there.extender.update_nodes({"n1": changed(there.infos["n1"], planned=(kept,)), "n2": full, "n3": both})
    expected = {"n1": KEPT_FOR_GANG.text, "n2": GpuCount.reason.text, "n3": GpuCount.reason.text}
    assert refused(there, asking("other")) == expected


def test_a_pod_that_comes_before_some_planned_pods_waits_for_the_gang_alone() -> None:
    """It takes the place of a planned pod of lower priority, and so sees the node without it."""
    there = Planned()
    kept = changed(planned_pod(asking("p", priority=9)), expected=True)
    lower = planned_pod(asking("q", priority=1))
    there.extender.update_nodes({"n3": changed(there.infos["n3"], planned=(kept, lower))})
    assert refused(there, asking("other", priority=5)) == {"n3": KEPT_FOR_GANG.text}
    assert refused(there, asking("other")) == {"n3": GpuCount.reason.text}


def test_a_pod_whose_nomination_is_not_known_yet_gets_its_place_alone() -> None:
    there = Planned()
    there.plan("n3", asking("p"))
    assert there.fitting(asking("p")) == ["n3"]
    assert there.extender.nominations.take_misfits() == []


@pytest.mark.parametrize(
    ("names", "nominated"),
    [
        pytest.param(NAMES[:3], None, id="kube-scheduler has refused the node"),
        pytest.param(NAMES[:3], "n3", id="kube-scheduler has refused the nominated node"),
        pytest.param(NAMES, "n3", id="the pod does not fit there any more"),
        pytest.param(["n3"], "n3", id="the pod does not fit on its nominated node"),
    ],
)
def test_a_place_that_does_not_do_is_noted(names: list[str], nominated: str | None) -> None:
    there = Planned()
    taker = planned_pod(asking("taker"))
    info = changed(there.infos["n3"], planned=(planned_pod(asking("p")),), pods=(taker,))
    there.extender.update_nodes({"n3": info})
    assert there.fitting(asking("p", nominated=nominated), names) == [name for name in names if name != "n3"]
    assert there.extender.nominations.take_misfits() == ["p"]
    assert there.extender.nominations.take_misfits() == []


def test_a_refusal_on_a_former_nomination_is_no_misfit_of_the_present_place() -> None:
    there = Planned()
    taken = changed(there.infos["n1"], pods=(planned_pod(asking("taker")),))
    there.extender.update_nodes({"n1": taken})
    there.plan("n3", asking("p"))
    assert there.fitting(asking("p", nominated="n1"), ["n1"]) == []
    assert there.extender.nominations.take_misfits() == []


def test_a_place_that_is_not_published_yet_is_found() -> None:
    there = Planned()
    there.extender.nominations.plan({"p": "n3"})
    assert there.fitting(asking("p")) == ["n3"]
    assert len(there.fitting(asking("q"))) == len(NAMES)


def test_a_request_of_an_autoscaler_is_answered_as_before() -> None:
    there = Planned()
    there.plan("n3", asking("p"))
    body = nodes_body(asking("p"), [node(name, {WHOLE: "1"}) for name in NAMES])
    answer = json.loads(there.extender.filter(body, until()).body)
    assert len(answer["Nodes"]["items"]) == len(NAMES)


def test_a_place_is_kept_from_another_pod_of_a_request_with_nodes() -> None:
    there = Planned()
    there.plan("n3", asking("p"))
    body = nodes_body(asking("q"), [node(name, {WHOLE: "1"}) for name in NAMES])
    answer = json.loads(there.extender.filter(body, until()).body)
    assert sorted(each["metadata"]["name"] for each in answer["Nodes"]["items"]) == sorted({*NAMES} - {"n3"})


def test_shares_without_a_chosen_gpu_get_one() -> None:
    there = Planned()
    there.plan("n0", asking("p", share="50000"))
    snapshot = there.extender.snapshot
    assert snapshot is not None
    (kept,) = snapshot.nodes["n0"].info.planned
    (kept_on,) = (device.uuid for device in snapshot.nodes["n0"].info.devices)
    assert kept.devices == {"main": (kept_on,)}
    assert there.fitting(asking("q", share="20000"), ["n0"]) == ["n0"]
    assert there.fitting(asking("q", share="30000"), ["n0"]) == []


_places = st.dictionaries(st.sampled_from(NAMES), st.sampled_from((-3, 0, 4)))


@given(_places, st.sampled_from(NAMES), st.sampled_from((-3, 0, 4)), st.booleans())
def test_a_nominated_pod_is_answered_as_among_all_nodes(
    places: dict[str, int], name: str, priority: int, own: bool
) -> None:
    """The request for one node is decided on this node alone."""
    there = Planned()
    for node_name, each in places.items():
        there.plan(node_name, asking(f"of-{node_name}", each))
    uid = f"of-{name}" if own and name in places else "new"
    priority = places[name] if own and name in places else priority
    alone = there.fitting(asking(uid, priority, name), [name])
    assert alone == there.fitting(asking(uid, priority), [name])


def test_hundreds_of_planned_pods_cost_a_request_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Planned()
    there.extender.replace_nodes(changed(there.infos["n0"], name=f"m{i}") for i in range(300))
    names = [f"m{i}" for i in range(300)]
    infos = {
        name: changed(there.infos["n0"], name=name, planned=(planned_pod(asking(f"of-{name}", 3)),))
        for name in names[:-1]
    }
    there.extender.update_nodes(infos)
    made: list[int] = []
    make = Table.__init__

    def counting(table: Table, nodes: Any, *rest: Any, **more: Any) -> None:
        made.append(len(nodes))
        make(table, nodes, *rest, **more)

    monkeypatch.setattr(Table, "__init__", counting)
    monkeypatch.setattr(overlay, "with_nodes", None)
    assert there.fitting(asking("new"), names) == ["m299"]
    assert made == []
    assert there.fitting(asking("of-m7", 3, "m7"), ["m7"]) == ["m7"]
    assert made == [1]
