"""Why a pod waits for GPUs that are kept for a gang."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.core.framework.refusal import KEPT_FOR_GANG
from scheduler_ext.core.request.gang_request import GangKey
from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.waiting import FITS_NOW, WaitingPods
from scheduler_ext.wire.config import Configuration, InspectionSection
from tests.explain.test_replay import Running, running
from tests.extender.preempting import on_gpu, whole_node
from tests.extender.test_planned_places import planned_pod
from tests.kube_objects import Json, pod

WHOLE = "nvidia.com/gpu"


def waits(name: str = "p") -> Json:
    return pod(name, {WHOLE: "1"})


def beside_a_gang(namespace: str = "default", *others: str, hide: bool = True, member: str = "m") -> Running:
    """Node free has one GPU, which is kept for a gang; node full has none that is free. `others` wait as
    well as p."""
    config = Configuration(inspection=InspectionSection(hide_other_namespaces=hide))
    full = [*whole_node("full", None), on_gpu("r", "full")]
    there = running(*whole_node("free", None), *full, waits(), *map(waits, others), config=config)
    kept = replace(planned_pod(waits(member)), namespace=namespace, expected=True)
    assert there.snapshot is not None
    info = there.snapshot.nodes["free"].info
    there.extender.update_nodes({"free": replace(info, planned=(kept,))})
    return there


def explainer(there: Running, *others: str) -> Explainer:
    """`others` are further members of the gang."""
    gangs = dict.fromkeys(("uid-m", *others), GangKey("ml", "gang", "train"))
    extender = there.extender
    return Explainer(there, extender.record, there.config, extender.preemption_answers, group_of=gangs.get)


def told(there: Running, *others: str) -> Json:
    """The Explanation of p."""
    return explainer(there, *others).of_name("default", "p")


@pytest.mark.parametrize(
    ("there", "gang"),
    [
        pytest.param(beside_a_gang(), "gang ml/train", id="of the same namespace"),
        pytest.param(beside_a_gang("ml"), "a gang of another namespace", id="of another one"),
        pytest.param(beside_a_gang("ml", hide=False), "gang ml/train", id="where none is hidden"),
    ],
)
def test_the_gang_is_named_and_no_pod_that_is_not_in_the_way(there: Running, gang: str) -> None:
    found = told(there)
    assert found["counts"] == {KEPT_FOR_GANG.text: 1, "Insufficient nvidia.com/gpu per device": 1}
    near = found["nearest"]
    assert (near["node"], near["reason"], near["wouldFitWithout"]) == ("free", KEPT_FOR_GANG.text, [])
    assert near["text"] == f"free has room that is kept for {gang}"
    assert found["advice"][0] == (
        f"Wait for {gang}, which comes first by priority and age; a pod with a priority above 0 may use the "
        "room now"
    )
    reasons = {each["node"]: each["reason"] for each in found["nodes"]}
    assert reasons["free"] == KEPT_FOR_GANG.text


def test_a_replay_names_a_member() -> None:
    replayed = beside_a_gang().replayed()
    found = Explainer(replayed, replayed.record, replayed.config).of_name("default", "p")
    near = found["nearest"]
    assert near["text"] == "free has room that is kept for the gang of pod default/m"


def test_a_member_waits_for_its_own_gang() -> None:
    found = told(beside_a_gang(), "uid-p")
    assert found["nearest"]["text"] == "free has room that is kept for the pod's own gang"
    assert found["advice"][0].startswith("Wait until all of the pod's gang fit")


KEPT = "free has room that is kept for"


@pytest.mark.parametrize(
    ("there", "texts"),
    [
        pytest.param(
            beside_a_gang("default", "q"),
            {"p": f"{KEPT} gang ml/train", "q": f"{KEPT} the pod's own gang"},
            id="a member of the gang",
        ),
        pytest.param(
            beside_a_gang("default", "q", member="q"),
            {"p": f"{KEPT} gang ml/train", "q": FITS_NOW},
            id="the member that the room is kept for",
        ),
    ],
)
def test_a_pod_like_a_member_has_a_reason_of_its_own(there: Running, texts: dict[str, str]) -> None:
    """The gang is named in labels or by owners, which the rest of the decision does not read."""
    lines = WaitingPods(there, there.extender.record, explainer(there, "uid-q")).lines()
    assert {line["name"]: line["nearest"] for line in lines} == texts
