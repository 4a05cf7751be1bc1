"""Requests that fitted no node, and the changes that kube-scheduler should know of."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from scheduler_ext.extender import extender as extender_module
from tests.extender.preempting import extender_on, infos_of
from tests.kube_objects import SHARE, Json, gpu, gpu_node, names_body, node, nodes_body, pod

WHOLE = "nvidia.com/gpu"
SICK: Json = {"health": {"state": "Unhealthy", "reason": "XID 79"}}
FULL: Json = {"memory": {"totalMiB": 81920, "usedMiB": 80000, "unaccountedMiB": 80000}}


class Refusing:
    """An extender whose nodes a, b and c have one sick GPU each, with a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.extender = extender_on(*(gpu_node(name, [gpu(0, **SICK)]) for name in "abc"))
        monkeypatch.setattr(extender_module, "time", SimpleNamespace(monotonic=lambda: self.now))

    def ask(self, asking: Json, names: str = "abc") -> None:
        self.extender.filter(names_body(asking, list(names)), deadline=self.now + 60)

    def change(self, *objects: Json) -> None:
        """From now on these nodes have this state."""
        self.extender.update_nodes(infos_of(*objects))

    def cured(self, changed: str, since: float = 0.0) -> set[str]:
        return set(self.nodes(dict.fromkeys(changed, since)))

    def nodes(self, changed: dict[str, float]) -> list[str]:
        snapshot = self.extender.snapshot
        assert snapshot is not None
        return self.extender.refusals.nodes_to_nudge(snapshot, changed)


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Refusing:
    return Refusing(monkeypatch)


ONE = pod("one", {WHOLE: "1"})
TWO = pod("two", {WHOLE: "2"})


def test_a_gpu_that_is_healthy_again_cures(refusing: Refusing) -> None:
    refusing.ask(ONE)
    assert refusing.cured("abc") == set()
    refusing.change(gpu_node("b", [gpu(0)]))
    assert refusing.cured("b") == {"b"}
    # Once: kube-scheduler asks again now, and is refused again if the change is not enough.
    assert refusing.cured("b") == set()
    refusing.change(gpu_node("b", [gpu(0, **SICK)]))
    refusing.ask(ONE)
    refusing.change(gpu_node("b", [gpu(0)]))
    assert refusing.cured("b") == {"b"}


@pytest.mark.parametrize(
    ("asking", "devices", "cures"),
    [
        pytest.param(ONE, [gpu(0)], True, id="healthy again"),
        pytest.param(TWO, [gpu(0)], False, id="healthy again, and too few all the same"),
        pytest.param(TWO, [gpu(0), gpu(1)], True, id="one more"),
        pytest.param(
            pod("slice", {"nvidia.com/mig-1g.10gb": "1"}),
            [
                gpu(
                    0,
                    mig={
                        "enabled": True,
                        "instances": [{"uuid": "MIG-0", "profile": "1g.10gb", "start": 0, "size": 1}],
                    },
                )
            ],
            True,
            id="instances appear",
        ),
        pytest.param(pod("share", {SHARE: "20000"}), [gpu(0, **FULL)], False, id="healthy, and full"),
        pytest.param(pod("share", {SHARE: "20000"}), [gpu(0)], True, id="memory came free"),
    ],
)
def test_only_helpful_changes_are_reported(
    refusing: Refusing, asking: Json, devices: list[Json], cures: bool
) -> None:
    refusing.ask(asking)
    refusing.change(gpu_node("b", devices))
    assert refusing.cured("b") == ({"b"} if cures else set())


def test_a_pod_that_fits_somewhere_is_not_waited_for(refusing: Refusing) -> None:
    refusing.change(gpu_node("a", [gpu(0)]))
    refusing.ask(ONE)
    refusing.change(gpu_node("b", [gpu(0)]))
    assert refusing.cured("b") == set()


def test_only_nodes_that_changed_are_looked_at(refusing: Refusing) -> None:
    refusing.ask(ONE)
    refusing.change(gpu_node("a", [gpu(0)]), gpu_node("b", [gpu(0)]))
    assert refusing.cured("c") == set()
    assert refusing.cured("") == set()
    assert refusing.cured("x") == set()
    assert refusing.cured("b") == {"b"}


def test_only_nodes_that_kube_scheduler_asked_about_help(refusing: Refusing) -> None:
    refusing.ask(ONE, names="ac")
    refusing.change(gpu_node("b", [gpu(0)]))
    assert refusing.cured("b") == set()
    refusing.change(gpu_node("c", [gpu(0)]))
    assert refusing.cured("bc") == {"c"}


def test_equal_requests_wait_for_the_nodes_of_each(refusing: Refusing) -> None:
    """Pods of one request with other node selectors: neither hides the other, whichever is asked last."""
    refusing.ask(ONE, names="ac")
    refusing.now += 1.0
    refusing.ask(ONE, names="b")
    refusing.change(gpu_node("a", [gpu(0)]), gpu_node("c", [gpu(0)]))
    assert refusing.cured("a") == {"a"}
    # The first has been woken, with all of its nodes; the second has not.
    assert refusing.cured("c") == set()
    refusing.change(gpu_node("b", [gpu(0)]))
    assert refusing.cured("b") == {"b"}


def test_one_event_for_each_of_equal_requests_that_share_no_node(refusing: Refusing) -> None:
    refusing.ask(ONE, names="ac")
    refusing.now += 1.0
    refusing.ask(ONE, names="b")
    refusing.change(*(gpu_node(name, [gpu(0)]) for name in "abc"))
    assert refusing.cured("abc") == {"a", "b"}
    assert refusing.cured("abc") == set()


def test_a_node_that_is_unknown_here_stands_for_no_other(refusing: Refusing) -> None:
    refusing.ask(ONE, names="ax")
    refusing.change(gpu_node("c", [gpu(0)]))
    assert refusing.cured("c") == set()


def test_when_nodes_came_or_went_since_any_of_them_may_help(refusing: Refusing) -> None:
    refusing.ask(ONE, names="ac")
    refusing.change(gpu_node("d", [gpu(0)]))
    assert refusing.cured("d") == {"d"}


def test_earlier_refusals_are_left_alone(refusing: Refusing) -> None:
    refusing.ask(ONE)
    refusing.now += 6.0
    refusing.ask(TWO)
    refusing.change(gpu_node("b", [gpu(0), gpu(1)]))
    # After a release that kube-scheduler sees itself, only the pods that it asked about just before.
    assert refusing.cured("b", since=refusing.now - 5.0) == {"b"}
    assert refusing.cured("b", since=refusing.now - 5.0) == set()
    assert refusing.cured("b") == {"b"}


def test_each_node_cures_refusals_since_its_own_change(refusing: Refusing) -> None:
    refusing.ask(ONE)
    refusing.change(gpu_node("a", [gpu(0)]), gpu_node("b", [gpu(0)]))
    assert refusing.nodes({"a": refusing.now + 1.0, "b": refusing.now}) == ["b"]


def test_one_node_that_serves_all_is_enough(refusing: Refusing) -> None:
    """Each nudge is a patch, and makes kube-scheduler examine every pod that may fit there."""
    for number in range(40):
        refusing.ask(pod("p", {SHARE: str(1000 + number)}))
    refusing.change(*(gpu_node(name, [gpu(0)]) for name in "cab"))
    assert refusing.nodes(dict.fromkeys("cab", 0.0)) == ["a"]
    assert refusing.nodes(dict.fromkeys("cab", 0.0)) == []


def test_as_few_nodes_as_serve_all(refusing: Refusing) -> None:
    """kube-scheduler examines only pods that may fit on the changed node."""
    t4 = {"gpu.scheduler-ext.io/model": "T4"}
    refusing.ask(ONE)
    refusing.ask(TWO)
    refusing.ask(pod("mib", {SHARE: "1000"}, annotations=t4))
    refusing.ask(pod("four", {WHOLE: "4"}))
    refusing.change(
        gpu_node("a", [gpu(0)]),
        gpu_node("b", [gpu(0, model="T4", total=15360)]),
        gpu_node("c", [gpu(0), gpu(1)]),
    )
    assert refusing.nodes(dict.fromkeys("abc", 0.0)) == ["b", "c"]
    refusing.change(gpu_node("a", [gpu(i) for i in range(4)]))
    assert refusing.nodes({"a": 0.0}) == ["a"]


def test_no_more_than_so_many_are_remembered(refusing: Refusing) -> None:
    for mib in range(1000, 1200):
        refusing.ask(pod("p", {SHARE: str(mib)}))
    assert len(refusing.extender.refusals._refused) == 128


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(names_body(pod("bad", {WHOLE: "-1"}), ["a"]), id="an invalid pod, which nothing cures"),
        pytest.param(nodes_body(ONE, [node("a")]), id="nodes that an autoscaler makes up"),
        pytest.param(names_body(pod("none"), ["a"]), id="a pod that asks no GPU"),
    ],
)
def test_pods_that_are_not_remembered(refusing: Refusing, body: bytes) -> None:
    refusing.extender.filter(body, refusing.now + 60)
    assert len(refusing.extender.refusals._refused) == 0
