"""The table of node groups: what it accepts, and errors that name the field and the fix."""

from __future__ import annotations

import pytest

from scheduler_ext.core.errors import ConfigError
from scheduler_ext.features.autoscaling.node_groups.table import load_node_groups
from tests.features.autoscaling.node_groups.tables import SHARES, SLICES, group, sliced, table, table_bytes
from tests.kube_objects import Json
from tests.pages import ROOT

WRONG = [
    pytest.param(group(gpusPerNode=0), "groups[0].gpusPerNode: Expected `int` >= 1", id="no GPU"),
    pytest.param(
        group(model="A100"),
        "groups[0].model: 'A100' is no model of the table; write A100-40GB or A100-80GB",
        id="a family of two models",
    ),
    pytest.param(
        group(model="H10O-80GB"),
        "groups[0].model: 'H10O-80GB' is no model of the table; write H100-80GB or H800-80GB or A100-80GB",
        id="a misspelt model",
    ),
    pytest.param(
        group(instanceTypes=["m.2", "p5.48xlarge"]),
        "groups[0].instanceTypes[1]: p5.48xlarge has H100-80GB, not L4; correct one of both",
        id="machines of another model",
    ),
    pytest.param(
        group(instanceTypes=["a2-ultragpu-4g"], model="A100-80GB"),
        "groups[0].gpusPerNode: 2, but a2-ultragpu-4g (instanceTypes[0]) has 4; write 4, or name another",
        id="another number of GPUs than the name of the machine type has",
    ),
    pytest.param(
        group(instanceTypes=["gx3.16x80.l4"]),
        "groups[0].gpusPerNode: 2, but gx3.16x80.l4 (instanceTypes[0]) has 1; write 1, or name another",
        id="than one, which the name of IBM's machine type leaves out",
    ),
    pytest.param(
        group(handOut="shares"),
        "groups[0].handOut: Invalid enum value 'shares'; write whole, memory-shares, mig or time-slicing",
        id="another way to hand out GPUs",
    ),
    pytest.param(
        group(labels={"gpu.scheduler-ext.io/model": "T4"}),
        "groups[0].labels: gpu.scheduler-ext.io/model follows from model and handOut; remove it",
        id="a label of the command",
    ),
    pytest.param(
        group(instanceTypes=["g6 12xlarge"]),
        "groups[0].instanceTypes[0]: not of the expected form; write a type such as g6.12xlarge",
        id="a machine type with a space",
    ),
    pytest.param(
        group(taints=[{"key": "gpu.scheduler-ext.io/starting", "effect": "NoSchedule"}]),
        "groups[0].taints[0].key: gpu.scheduler-ext.io/starting does not stay, and every group has it;",
        id="the startup taint as one that stays",
    ),
    pytest.param(
        group(
            taints=[{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule", "value": "b"}]
        ),
        "groups[0].taints[1]: taints[0] has this key and effect already; remove one of both",
        id="a taint twice, with which no node can register",
    ),
    pytest.param(
        group(labels={"a": "x y"}),
        "groups[0].labels[...]: not of the expected form; write keys such as example.com/team, and",
        id="a label with a space in its value",
    ),
    pytest.param(
        group(**SHARES, memoryMiB=2 * 23034),
        "groups[0].memoryMiB: 46068, but one GPU has 23034; write the memory of one GPU, in MiB",
        id="the memory of all GPUs of the machine",
    ),
    pytest.param(
        group(**SHARES, instanceTypes=["g6f.2xlarge"], gpusPerNode=1),
        "groups[0].memoryMiB: g6f.2xlarge (instanceTypes[0]) has a part of a GPU; add its memory, in MiB",
        id="shares of a part of a GPU",
    ),
    pytest.param(
        group(**sliced(model="RTX-PRO-6000", p1g_24gb=1), instanceTypes=["g4-standard-12"], gpusPerNode=1),
        "groups[0].instanceTypes[0]: g4-standard-12 has a part of a GPU, without MIG; name another",
        id="MIG of a part of a GPU",
    ),
    pytest.param(
        group(min=4), "groups[0].max: 3 is below min; write at least 4", id="more at least than at most"
    ),
    pytest.param(
        group(handOut="mig"), "groups[0].mig: handOut is mig; add the layout", id="MIG without a layout"
    ),
    pytest.param(
        group(**sliced(model="L4", p1g_5gb=1)),
        "groups[0].handOut: L4 has no MIG; choose another way",
        id="no MIG",
    ),
    pytest.param(
        group(**sliced(p5g_40gb=1)),
        "groups[0].mig.profiles.5g.40gb: A100-80GB has no such profile; it has ",
        id="no such profile",
    ),
    pytest.param(
        group(**sliced(p3g_40gb=2, p1g_10gb=1)),
        "groups[0].mig.profiles: so many instances do not fit on one A100-80GB; reduce them",
        id="more instances than fit",
    ),
    pytest.param(
        group(**sliced("single", p3g_40gb=1, p1g_10gb=1)),
        "groups[0].mig.strategy: single takes one profile; write mixed, or keep one",
        id="two profiles under one name",
    ),
    pytest.param(
        group(replicas=2),
        "groups[0].replicas: handOut is whole; remove it, or write handOut: time-slicing",
        id="replicas of whole GPUs",
    ),
    pytest.param(
        group(model="MI300X", **SHARES),
        "groups[0].handOut: memory-shares needs NVIDIA GPUs; write whole",
        id="shares of another vendor",
    ),
    pytest.param(
        group(model="L2", **SHARES),
        "groups[0].memoryMiB: the memory of L2 is not in the table; add it, in MiB",
        id="shares of unknown memory",
    ),
]


def test_an_error_in_the_node_class() -> None:
    with pytest.raises(ConfigError, match=r"^karpenter\.nodeClass\.group: not of the expected form; write"):
        table(group(), karpenter={"nodeClass": {"group": "a b"}})


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_an_error_names_the_field_and_the_fix(wrong: Json, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        table(wrong)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_two_groups_have_different_names() -> None:
    with pytest.raises(ConfigError, match=r"groups\[1\].name: g is also groups\[0\]; give another name"):
        table(group(), group())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "0 documents; give one"),
        (b"a: 1\n---\nb: 2\n", "2 documents; give one"),
        (b"kind: NodeGroups", "apiVersion: None; write 'cli.scheduler-ext.io/v1alpha1'"),
        (b"apiVersion: cli.scheduler-ext.io/v1alpha1\nkind: Pod", "kind: 'Pod'; write 'NodeGroups'"),
        (table_bytes(), "groups: Expected `array` of length >= 1"),
        (b"- 1", "a value; give one object"),
    ],
    ids=["empty", "two documents", "no version", "another kind", "no groups", "a list"],
)
def test_another_file_is_no_table(text: bytes, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_node_groups(text)
    assert str(caught.value).startswith(message)


def test_layouts_that_fit_in_one_order_only_are_accepted() -> None:
    # 1g.10gb first would take a place of 3g.40gb.
    (found,) = table(group(**sliced(p1g_10gb=1, p2g_20gb=1, p3g_40gb=1))).groups
    assert found.mig is not None


def test_the_shipped_table_is_read() -> None:
    found = load_node_groups((ROOT / "config" / "node-groups.yaml").read_bytes())
    assert {each.hand_out for each in found.groups} == {"whole", "memory-shares", "mig"}
    assert {each.capacity_type for each in found.groups} == {"spot", "on-demand"}
    assert table(group(**SLICES)).groups[0].replicas == 4


@pytest.mark.parametrize(
    ("machine", "model", "gpus"),
    [
        pytest.param("a3-megagpu-8g", "H100-80GB", 8, id="the number in the name"),
        pytest.param("a3-edgegpu-8g-nolssd", "H100-80GB", 8, id="a name that goes on"),
        pytest.param("g4-standard-12", "RTX-PRO-6000", 1, id="a part of one GPU"),
        pytest.param("p5.48xlarge", "H100-80GB", 4, id="a size whose number is not known"),
    ],
)
def test_a_number_of_gpus_that_the_machine_type_has(machine: str, model: str, gpus: int) -> None:
    given = load_node_groups(table_bytes(group(instanceTypes=[machine], model=model, gpusPerNode=gpus)))
    assert given.groups[0].gpus_per_node == gpus
