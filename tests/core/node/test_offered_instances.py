"""How a device plugin hands out GPUs and MIG instances, and layouts that it does not hand out."""

from __future__ import annotations

import pytest

from scheduler_ext.core.cache.ledger import NodePods
from scheduler_ext.core.cache.node_record import NodeRecord
from scheduler_ext.core.gpu.gpu import Device, Holder, Mig, MigInstance
from scheduler_ext.core.gpu.mig_geometry import geometry_for
from scheduler_ext.core.node.estimate import Estimate
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.offered_instances import layout_problem
from scheduler_ext.core.node.state import resolve
from tests.core.reported import A100, NAMES, ONE_G, SHARED, WHOLE, bound, device, node, wants

MIXED, SINGLE = {"mig_strategy": "mixed"}, {"mig_strategy": "single"}
ME = f"{ONE_G}.me"


def cut(gpu: int, *profiles: str, holder: Holder | None = None, healthy: bool = True) -> Device:
    """A GPU with an instance of each profile, one after the other; a holder holds the last one."""
    instances = [
        MigInstance(f"MIG-{gpu}-{i}", profile, i, 1, holder if i == len(profiles) - 1 else None)
        for i, profile in enumerate(profiles)
    ]
    return device(gpu, healthy=healthy, mig=Mig(True, False, geometry_for("A100-80GB"), tuple(instances)))


PLAIN, BOTH = ("1g.10gb",) * 4, ("1g.10gb",) * 4 + ("1g.10gb+me",)


def joined(info: NodeInfo, allocatable: dict[str, int]) -> dict[str, int]:
    """What a pod can get of each resource of the node."""
    record = NodeRecord(allocatable=allocatable)
    known = resolve(record.info("n", info.report, NodePods(info.pods)), NAMES, 10)
    limits = {name: (unknown, limit) for name, unknown, limit in known.state.limits}
    units = [unit for slot in known.state.slots if slot.healthy for unit in slot.units]
    free = {name: sum(unit.free for unit in units if unit.resource == name) for name in limits}
    return {name: min(free[name] - unknown, limit) for name, (unknown, limit) in limits.items()}


@pytest.mark.parametrize(
    ("info", "allocatable", "available"),
    [
        pytest.param(
            node(cut(0, *BOTH), cut(1, *BOTH), report=MIXED),
            {ONE_G: 10},
            {ONE_G: 10},
            id="an old plugin hands them out under the plain name",
        ),
        pytest.param(
            node(cut(0, *BOTH), cut(1, *BOTH), report=MIXED),
            {ONE_G: 8, ME: 2},
            {ONE_G: 8, ME: 2},
            id="a new one by their own name",
        ),
        pytest.param(
            node(cut(0, *BOTH), report=MIXED),
            {ONE_G: 4, ME: 0},
            {ONE_G: 4, ME: 0},
            id="a new one that withdrew those of its own name",
        ),
        pytest.param(
            node(cut(0, *BOTH), report=MIXED),
            {ONE_G: 5, ME: 0},
            {ONE_G: 5},
            id="an old one after a new one",
        ),
        pytest.param(
            node(cut(0, "1g.10gb+me"), cut(1, "1g.10gb+me"), report=MIXED),
            {ONE_G: 2},
            {ONE_G: 2},
            id="an old one, and no plain instances",
        ),
        pytest.param(
            node(cut(0, *BOTH), cut(1, *BOTH, healthy=False), report=MIXED),
            {ONE_G: 5},
            {ONE_G: 5},
            id="an old one that withdrew a sick GPU",
        ),
        pytest.param(
            node(cut(0, *BOTH), report=MIXED | {"sharing_strategy": "time-slicing", "replicas": 2}),
            {f"{ONE_G}.shared": 10},
            {ONE_G: 0, f"{ONE_G}.shared": 10},
            id="time slices under an old one",
        ),
        pytest.param(
            node(
                cut(0, *BOTH, holder=Holder(uid="uid-a")), pods=(bound("a", wants(1, ONE_G)),), report=MIXED
            ),
            {ONE_G: 5},
            {ONE_G: 4},
            id="a held one counts once",
        ),
        pytest.param(
            node(cut(0, *BOTH), report=SINGLE), {WHOLE: 5}, {WHOLE: 5}, id="strategy single: all of them"
        ),
        pytest.param(node(cut(0, *BOTH), report=SINGLE), {WHOLE: 0}, {}, id="strategy single: offers none"),
        pytest.param(
            node(device(0), device(1)), {SHARED: 8}, {WHOLE: 0, SHARED: 8}, id="slices of GPUs, by their name"
        ),
        pytest.param(
            node(device(0), device(1, healthy=False)),
            {SHARED: 4},
            {WHOLE: 0, SHARED: 4},
            id="slices of the healthy GPU, by their name",
        ),
        pytest.param(
            node(cut(0, *PLAIN), report=SINGLE),
            {SHARED: 16},
            {WHOLE: 0, SHARED: 16},
            id="strategy single: slices of instances, by their name",
        ),
        pytest.param(
            node(cut(0, *PLAIN), device(1), report=MIXED),
            {SHARED: 4, f"{ONE_G}.shared": 16},
            {WHOLE: 0, SHARED: 4, ONE_G: 0, f"{ONE_G}.shared": 16},
            id="slices of instances and of a GPU, by their names",
        ),
        pytest.param(
            node(cut(0, *PLAIN), device(1), report=MIXED),
            {WHOLE: 1, f"{ONE_G}.shared": 16},
            {WHOLE: 1, SHARED: 0, ONE_G: 0, f"{ONE_G}.shared": 16},
            id="a GPU beside slices of instances is not shared",
        ),
    ],
)
def test_instances_are_offered_as_allocatable_says(
    info: NodeInfo, allocatable: dict[str, int], available: dict[str, int]
) -> None:
    assert joined(info, allocatable) == available


@pytest.mark.parametrize(
    ("info", "slices", "replicas"),
    [
        pytest.param(node(device(0), device(1)), 8, 4, id="GPUs"),
        pytest.param(node(cut(0, *PLAIN), report=SINGLE), 16, 4, id="instances"),
        pytest.param(node(device(0), device(1)), 7, 4, id="GPUs of which one slice is withheld"),
    ],
)
def test_replicas_are_the_slices_of_each(info: NodeInfo, slices: int, replicas: int) -> None:
    report = NodeRecord(allocatable={SHARED: slices}).info("n", info.report, NodePods()).report
    assert report is not None
    assert (report.sharing_strategy, report.replicas) == ("time-slicing", replicas)


INVALID = Estimate("nvidia", A100, 0, mig_strategy="single", mig_invalid=True)


@pytest.mark.parametrize(
    ("info", "problem"),
    [
        pytest.param(node(cut(0), report=SINGLE), "GPU 0 is in MIG mode without instances", id="one GPU"),
        pytest.param(
            node(cut(0), cut(1), cut(2, *PLAIN), report=MIXED),
            "GPUs 0, 1 are in MIG mode without instances",
            id="some GPUs",
        ),
        pytest.param(
            node(cut(0, *PLAIN), device(1), report=SINGLE),
            "only some of its GPUs are in MIG mode, which strategy single does not hand out",
            id="single: a whole GPU beside",
        ),
        pytest.param(
            node(cut(0, "1g.10gb", "2g.20gb"), report=SINGLE),
            "its MIG instances are unlike (1g.10gb, 2g.20gb), which strategy single does not hand out",
            id="single: unlike instances",
        ),
        pytest.param(
            NodeInfo("n", estimate=INVALID),
            "its labels call its MIG layout invalid: no instances, or unlike ones",
            id="by labels",
        ),
        pytest.param(node(cut(0, *BOTH), device(1), report=MIXED), None, id="mixed: a whole GPU beside"),
        pytest.param(node(cut(0)), None, id="a plugin that knows no MIG"),
        pytest.param(node(device(0), report=SINGLE), None, id="no GPU in MIG mode"),
        pytest.param(NodeInfo("n"), None, id="an unknown node"),
    ],
)
def test_layouts_that_are_not_handed_out(info: NodeInfo, problem: str | None) -> None:
    assert layout_problem(info) == problem
