"""What each autoscaler is told about a node group."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import yaml

from scheduler_ext.core.errors import ConfigError
from scheduler_ext.core.gpu.gpu import Device, Memory
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.node.promisable import shareable_mib
from scheduler_ext.features.autoscaling.node_groups.cluster_autoscaler import (
    cluster_autoscaler_commands,
    cluster_autoscaler_notes,
    cluster_autoscaler_settings,
)
from scheduler_ext.features.autoscaling.node_groups.gke import gke_commands, gke_notes, gke_settings
from scheduler_ext.features.autoscaling.node_groups.karpenter import karpenter_notes, karpenter_objects
from scheduler_ext.features.autoscaling.node_groups.node_facts import ordered, resources
from scheduler_ext.features.autoscaling.node_groups.table import NodeGroups
from tests.features.autoscaling.node_groups.tables import SHARES, SLICES, SPOT, group, sliced, table
from tests.kube_objects import SHARE, Json

GPU = "nvidia.com/gpu"
TAINT = {"key": GPU, "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, {GPU: 2}, id="whole GPUs"),
        pytest.param({"model": "MI300X"}, {"amd.com/gpu": 2}, id="whole GPUs of another vendor"),
        pytest.param(SLICES, {GPU: 8}, id="time slices"),
        pytest.param(
            sliced(p3g_40gb=1, p1g_10gb=3),
            {GPU: 0, "nvidia.com/mig-3g.40gb": 2, "nvidia.com/mig-1g.10gb": 6},
            id="MIG instances, and no whole GPU",
        ),
        pytest.param(sliced("single", p3g_40gb=2), {GPU: 4}, id="MIG instances that are called GPUs"),
    ],
)
def test_the_resources_of_a_node(fields: Json, expected: dict[str, int]) -> None:
    assert resources(table(group(**fields)).groups[0], 10) == expected


def test_the_shares_of_a_node_are_those_that_the_extender_will_advertise() -> None:
    model = canonical_model("L4")
    gpu = Device("u", 0, "nvidia", "NVIDIA L4", model, None, Memory(23034))
    for percent in (0, 10, 33):
        found = resources(table(group(**SHARES)).groups[0], percent)
        assert found == {GPU: 0, SHARE: 2 * shareable_mib(gpu, percent)}
    # The headroom is a tenth of the total of 23,034 MiB.
    assert resources(table(group(**SHARES, memoryMiB=20000)).groups[0], 10)[SHARE] == 2 * (20000 - 2304)
    reserved = replace(gpu, memory=Memory(23034, 334))
    known = resources(table(group(**SHARES, memoryMiB=23034 - 334)).groups[0], 10)
    assert known[SHARE] == 2 * shareable_mib(reserved, 10)


def test_cheap_groups_come_first_then_small_nodes_and_of_equal_ones_spot() -> None:
    groups = table(
        group("dear", labels={"gpu.scheduler-ext.io/value": "5"}),
        group("h100", model="H100-80GB"),
        group("slices", **SLICES),
        group("halves", **sliced("single", p3g_40gb=2)),
        group("instances", **sliced(p3g_40gb=2)),
        group("eighths", gpusPerNode=1, instanceTypes=["g6f.xlarge"]),
        group("l4"),
        group("l4-spot", **SPOT),
        group("l4-large-spot", gpusPerNode=4, **SPOT),
        group("t4", model="T4"),
    ).groups
    assert [each.name for each in ordered(groups)] == [
        "t4",
        "l4-spot",
        "l4",
        "l4-large-spot",
        "instances",
        "dear",
        "h100",
        "eighths",
        "slices",
        "halves",
    ]


def of_kind(objects: Json, kind: str) -> dict[str, Json]:
    return {each["metadata"]["name"]: each["spec"] for each in objects["items"] if each["kind"] == kind}


def test_karpenter_gets_a_pool_for_each_group() -> None:
    objects = karpenter_objects(
        table(
            group("on-demand", taints=[TAINT], labels={"team": "a"}),
            group("spot", **SPOT),
            karpenter={"nodeClass": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass"}},
        )
    )
    pools = of_kind(objects, "NodePool")
    assert pools["spot"]["weight"] > pools["on-demand"]["weight"]
    pool = pools["on-demand"]
    assert pool["limits"] == {"nodes": "3"}
    assert pool["disruption"]["consolidationPolicy"] == "WhenEmpty"
    template = pool["template"]
    assert template["metadata"]["labels"] == {
        "gpu.scheduler-ext.io/model": "L4",
        "gpu.scheduler-ext.io/agent": "true",
        "team": "a",
    }
    assert template["spec"]["taints"] == [TAINT]
    assert template["spec"]["startupTaints"] == [
        {"key": "gpu.scheduler-ext.io/starting", "value": "true", "effect": "NoSchedule"}
    ]
    assert template["spec"]["nodeClassRef"] == {
        "group": "karpenter.kwok.sh",
        "kind": "KWOKNodeClass",
        "name": "default",
    }
    wanted = {each["key"]: each["values"] for each in template["spec"]["requirements"]}
    assert wanted == {
        "node.kubernetes.io/instance-type": ["m.2"],
        "karpenter.sh/capacity-type": ["on-demand"],
    }
    zoned = of_kind(karpenter_objects(table(group(zones=["eu-west-1a", "eu-west-1b"]))), "NodePool")["g"]
    assert {
        "key": "topology.kubernetes.io/zone",
        "operator": "In",
        "values": ["eu-west-1a", "eu-west-1b"],
    } in (zoned["template"]["spec"]["requirements"])
    # The provider knows its whole GPUs.
    assert of_kind(objects, "NodeOverlay") == {}


def test_karpenter_learns_what_the_provider_does_not_know() -> None:
    overlays = of_kind(
        karpenter_objects(
            table(
                group("shares", **SHARES),
                group("slices", **SLICES),
                group("whole"),
                group("eighths", gpusPerNode=1, instanceTypes=["g6f.xlarge"]),
            )
        ),
        "NodeOverlay",
    )
    assert overlays["slices"] == {
        "requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["slices"]}],
        "capacity": {GPU: "8"},
    }
    assert overlays["shares"]["capacity"][GPU] == "0"
    assert overlays["eighths"]["capacity"] == {GPU: "1"}
    assert overlays.keys() == {"shares", "slices", "eighths"}


def test_cluster_autoscaler_knows_a_node_before_it_exists() -> None:
    settings = cluster_autoscaler_settings(
        table(group("g", min=1, taints=[TAINT | {"value": "x"}], cpu="8", memory="32Gi", **SHARES, **SPOT))
    )
    assert settings["flags"] == ["--expander=priority", "--startup-taint=gpu.scheduler-ext.io/starting"]
    (found,) = settings["groups"]
    template = "k8s.io/cluster-autoscaler/node-template"
    assert found["tags"] == {
        "k8s.io/cluster-autoscaler/enabled": "true",
        f"{template}/label/node-lifecycle": "spot",
        f"{template}/label/gpu.scheduler-ext.io/model": "L4",
        f"{template}/label/gpu.scheduler-ext.io/agent": "true",
        f"{template}/label/gpu.scheduler-ext.io/sharing": "memory",
        f"{template}/resources/{GPU}": "0",
        f"{template}/resources/{SHARE}": "41460",
        f"{template}/taint/{GPU}": "x:NoSchedule",
    }
    capacity = "capacity.cluster-autoscaler.kubernetes.io"
    labels = (
        "node-lifecycle=spot,gpu.scheduler-ext.io/model=L4,gpu.scheduler-ext.io/agent=true,"
        "gpu.scheduler-ext.io/sharing=memory"
    )
    size = "cluster.x-k8s.io/cluster-api-autoscaler-node-group"
    assert found["annotations"] == {
        f"{size}-min-size": "1",
        f"{size}-max-size": "3",
        f"{capacity}/cpu": "8",
        f"{capacity}/memory": "32Gi",
        f"{capacity}/gpu-type": SHARE,
        f"{capacity}/gpu-count": "41460",
        f"{capacity}/labels": labels,
        f"{capacity}/taints": f"{GPU}=x:NoSchedule",
    }
    # The template has the taints that stay, and the nodes the one of their start as well.
    assert found["kubelet"] == {
        "nodeLabels": labels,
        "registerWithTaints": f"{GPU}=x:NoSchedule,gpu.scheduler-ext.io/starting=true:NoSchedule",
    }


UUID = "0a1b2c3d-0000-4000-8000-0123456789ab"


@pytest.mark.parametrize(
    ("id_", "name"),
    [
        ("l4", "l4"),
        (f"eks-l4-spot-{UUID}", "l4-spot"),
        ("MachineDeployment/default/l4-spot", "l4-spot"),
        ("other", None),
    ],
)
def test_the_expander_finds_a_group_by_its_id(id_: str, name: str | None) -> None:
    settings = cluster_autoscaler_settings(table(group("l4"), group("l4-spot", **SPOT)))
    priorities = yaml.safe_load(settings["priorities"]["data"]["priorities"])
    ranks = {"l4-spot": 20, "l4": 10, None: None}
    chosen = [rank for rank, patterns in priorities.items() if any(re.search(p, id_) for p in patterns)]
    assert chosen == [ranks[name]] * (name is not None)


def gke(*groups: Json, location: str = "europe-west4") -> NodeGroups:
    return table(*groups, gke={"cluster": "c", "location": location, "maxCpu": 96})


TWO_EFFECTS = [
    {"key": "a", "effect": "NoSchedule"},
    {"key": "a", "effect": "NoExecute"},
    {"key": "b", "effect": "NoSchedule"},
]


@pytest.mark.parametrize(
    ("notes", "given", "note"),
    [
        pytest.param(
            karpenter_notes,
            table(group(), group("h", min=1)),
            "groups[1].min: Karpenter keeps no minimum of 1; it adds nodes for waiting pods only",
            id="a minimum",
        ),
        pytest.param(
            cluster_autoscaler_notes,
            table(group(), group("m", **sliced(p3g_40gb=1, p1g_10gb=1))),
            "groups[1].mig.profiles: an annotation of Cluster API names one resource, so the group states "
            "nvidia.com/mig-3g.40gb only",
            id="two resources",
        ),
        pytest.param(
            cluster_autoscaler_notes,
            table(group(taints=TWO_EFFECTS)),
            "groups[0].taints: a tag of an Auto Scaling group has one effect of a; cluster-autoscaler knows "
            "the last one only",
            id="two effects of one taint",
        ),
        pytest.param(
            gke_notes,
            gke(group(instanceTypes=["g6.12xlarge"]), location="europe-west4-a"),
            "groups[0].instanceTypes: g6.12xlarge is no machine type of Google Cloud",
            id="a machine of another cloud",
        ),
    ],
)
def test_what_an_autoscaler_does_not_do_is_noted(
    notes: Callable[[NodeGroups], list[str]], given: NodeGroups, note: str
) -> None:
    assert notes(given) == [note]


@pytest.mark.parametrize(
    ("label", "is_noted"),
    [
        ("node-role.kubernetes.io/gpu", True),
        ("kubernetes.io/team", True),
        ("node.kubernetes.io/pool", False),
        ("team", False),
    ],
)
def test_labels_with_which_no_kubelet_starts_are_noted(label: str, is_noted: bool) -> None:
    noted = cluster_autoscaler_notes(table(group(labels={label: "x"})))
    assert bool(noted) is is_noted
    assert all(
        each.startswith(f"groups[0].labels: a kubelet with {label} in --node-labels") for each in noted
    )


def options(words: list[str]) -> dict[str, str]:
    parts = (word.partition("=") for word in words if word.startswith("--"))
    return {option: value for option, _, value in parts}


def test_gke_gets_limits_and_pools() -> None:
    settings = gke_settings(gke(group("a", max=5, taints=[TAINT]), group("b", **SPOT)))
    limits, spot, pool = settings["commands"]
    assert limits[:5] == ["gcloud", "container", "clusters", "update", "c"]
    assert options(limits)["--autoprovisioning-config-file"] == "-"
    assert settings["autoprovisioning"]["resourceLimits"] == [
        {"resourceType": "cpu", "minimum": 0, "maximum": 96},
        {"resourceType": "memory", "minimum": 0, "maximum": 10_000},
        {"resourceType": "nvidia-l4", "minimum": 0, "maximum": 16},
    ]
    assert (spot[4], "--spot" in spot) == ("b", True)
    found = options(pool)
    assert (pool[4], "--spot" in pool) == ("a", False)
    assert found["--accelerator"] == "type=nvidia-l4,count=2,gpu-driver-version=default"
    assert (found["--total-min-nodes"], found["--total-max-nodes"]) == ("0", "5")
    assert found["--node-labels"] == "gpu.scheduler-ext.io/model=L4,gpu.scheduler-ext.io/agent=true"
    # GKE itself adds the taint of GPUs. Its autoscaler takes no flags, and knows a start by its prefix.
    assert found["--node-taints"] == (
        "startup-taint.cluster-autoscaler.kubernetes.io/gpu.scheduler-ext.io=true:NoSchedule"
    )


def test_gke_reads_the_limits_of_all_models_from_the_script() -> None:
    mega = {"model": "H100-80GB", "instanceTypes": ["a3-megagpu-8g"], "gpusPerNode": 8}
    given = gke(group("a"), group("b", model="T4"), group("c", **mega))
    script = "\n".join(gke_commands(given))
    (document,) = re.findall(r"--autoprovisioning-config-file=- <<'END'\n(.*?)\nEND\n", script, re.S)
    assert yaml.safe_load(document) == gke_settings(given)["autoprovisioning"]
    limits = {each["resourceType"]: each["maximum"] for each in yaml.safe_load(document)["resourceLimits"]}
    assert limits == {
        "cpu": 96,
        "memory": 10_000,
        "nvidia-h100-mega-80gb": 24,
        "nvidia-l4": 6,
        "nvidia-tesla-t4": 6,
    }


@pytest.mark.parametrize(
    ("location", "zones", "started"),
    [
        pytest.param("europe-west4-a", [], "4", id="a zone"),
        pytest.param("europe-west4", [], "2", id="a region, of three zones"),
        pytest.param("europe-west4", ["europe-west4-a"], "4", id="one zone of a region"),
    ],
)
def test_gke_starts_the_least_number_of_nodes_in_every_zone(
    location: str, zones: list[str], started: str
) -> None:
    given = gke(group(min=4, max=9, zones=zones, instanceTypes=["g2-standard-24"]), location=location)
    _, pool = gke_settings(given)["commands"]
    found = options(pool)
    assert (found["--num-nodes"], found["--total-min-nodes"]) == (started, "4")
    assert found.get("--node-locations", "") == ",".join(zones)
    is_open = location == "europe-west4" and not zones
    assert [note.partition(":")[0] for note in gke_notes(given)] == ["groups[0].zones"] * is_open


@pytest.mark.parametrize(
    ("fields", "option"),
    [
        pytest.param(
            sliced("single", p3g_40gb=2),
            "type=nvidia-a100-80gb,count=2,gpu-partition-size=3g.40gb,gpu-driver-version=default",
            id="partitions",
        ),
        pytest.param(
            SLICES,
            "type=nvidia-l4,count=2,gpu-sharing-strategy=time-sharing,max-shared-clients-per-gpu=4,"
            "gpu-driver-version=default",
            id="time-sharing",
        ),
    ],
)
def test_gke_hands_out_parts(fields: Json, option: str) -> None:
    _, pool = gke_settings(gke(group(**fields)))["commands"]
    assert options(pool)["--accelerator"] == option


def test_gke_leaves_its_device_plugin_away_from_shares() -> None:
    _, pool = gke_settings(gke(group(min=1, **SHARES)))["commands"]
    assert "gke-no-default-nvidia-gpu-device-plugin=true" in options(pool)["--node-labels"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(
            {"model": "L40S"}, "groups[0].model: GKE has no machines with L40S; it has T4, ", id="no such GPU"
        ),
        pytest.param(
            SHARES,
            "groups[0].min: GKE's autoscaler cannot know the memory shares of a node that does not exist; "
            "write at least 1",
            id="shares from zero nodes",
        ),
        pytest.param(
            sliced(p3g_40gb=1),
            "groups[0].mig.strategy: GKE cuts every GPU into one profile and names it nvidia.com/gpu; "
            "write single, with one profile",
            id="mixed MIG",
        ),
        pytest.param(
            {"handOut": "time-slicing", "replicas": 49},
            "groups[0].replicas: at most 48 containers share a GPU on GKE; write 48 or less",
            id="more time slices than GKE takes",
        ),
        pytest.param(
            {"instanceTypes": ["a", "b"]},
            "groups[0].instanceTypes: a node pool of GKE has one machine type; keep one",
            id="two machine types",
        ),
    ],
)
def test_gke_cannot_have_every_group(fields: Json, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        gke_settings(gke(group(**fields)))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("commands", [cluster_autoscaler_commands, gke_commands])
def test_commands_are_lines_of_a_shell(commands: Callable[[NodeGroups], Iterator[str]]) -> None:
    hostile = group(taints=[TAINT], labels={"a": "b"})
    lines = list(commands(table(hostile)))
    assert not any("\n" in line for line in lines)
    script = "\n".join(lines)
    document = re.search(r"<<'END'\n(.*?)\nEND\n", script, re.S)
    assert document is not None
    assert yaml.safe_load(document[1]).keys() & {"kind", "resourceLimits"}
    script = script.replace(document[0], "\n")
    words = [shlex.split(line, comments=True) for line in script.replace("\\\n", " ").splitlines()]
    assert {each[0] for each in words if each} <= {"kubectl", "aws", "gcloud"}
    settings = cluster_autoscaler_settings(table(hostile))["groups"][0]["tags"]
    if commands is cluster_autoscaler_commands:
        (tags,) = [each for each in words if "create-or-update-tags" in each]
        assert {tag.partition("Key=")[2] for tag in tags[4:]} == {
            f"{k},Value={v}" for k, v in settings.items()
        }
