"""The meaning of single labels: sharing, versions, instance types, spot, changes in progress."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler_ext.core.node.estimate import caps_from_labels, estimate_from_labels
from scheduler_ext.core.node.node_labels import (
    ONE_REPLICA_LABEL,
    change_in_progress,
    failed_change,
    fraction,
    is_spot,
    node_pool,
    one_replica,
)
from tests.core.node.test_estimate import AMD, GFD, GKE, MIXED, SINGLE, estimated, machine

OLD_GFD = {"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "4"}
GKE_SHARED = GKE | {
    "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing",
    "cloud.google.com/gke-max-shared-clients-per-gpu": "5",
}
GKE_MPS = GKE_SHARED | {"cloud.google.com/gke-gpu-sharing-strategy": "mps"}
GKE_COUNT = "cloud.google.com/gke-accelerator-count"


def shared(strategy: str, replicas: str) -> dict[str, str]:
    return GFD | {"nvidia.com/gpu.sharing-strategy": strategy, "nvidia.com/gpu.replicas": replicas}


MIG_STATE, UPGRADE = "nvidia.com/mig.config.state", "nvidia.com/gpu-driver-upgrade-state"
INSTANCE, EC2 = "node.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-gpu"
EC2_PART = {f"{EC2}-name": "l4", f"{EC2}-count": "0"}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param(GFD, ("none", 1, "none"), id="whole GPUs"),
        pytest.param(SINGLE, ("none", 1, "single"), id="slices under single"),
        pytest.param(MIXED, ("none", 1, "mixed"), id="0 replicas is a GPU in MIG mode"),
        pytest.param(shared("mps", "4"), ("mps", 4, "none"), id="MPS"),
        pytest.param(shared("time-slicing", "?"), ("time-slicing", 1, "none"), id="unreadable replicas"),
        pytest.param(OLD_GFD, ("time-slicing", 4, "none"), id="an old GFD writes no strategy"),
        pytest.param(GKE_SHARED, ("time-slicing", 5, "none"), id="GKE's time-sharing is time-slicing"),
        pytest.param(
            AMD | {"nvidia.com/gpu.replicas": "4", "nvidia.com/mig.strategy": "mixed"},
            ("none", 1, "none"),
            id="NVIDIA's sharing says nothing about AMD",
        ),
    ],
)
def test_sharing_replicas_and_mig_strategy(labels: dict[str, str], expected: tuple[str, int, str]) -> None:
    estimate = estimated(labels)
    assert (estimate.sharing_strategy, estimate.replicas, estimate.mig_strategy) == expected


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param(
            GFD | {"nvidia.com/gpu.compute.minor": "7"},
            ((8, 7), (12, 8), "570.124.06"),
            id="GFD's full versions and its own capability",
        ),
        pytest.param(
            {
                "nvidia.com/gpu.product": "Tesla-T4",
                "nvidia.com/cuda.runtime-version.major": "12",
                "nvidia.com/cuda.runtime-version.minor": "4",
                "nvidia.com/cuda.driver-version.major": "550",
                "nvidia.com/cuda.driver-version.minor": "54",
                "nvidia.com/cuda.driver-version.revision": "15",
            },
            ((7, 5), (12, 4), "550.54.15"),
            id="GFD's versions in parts, capability from the table",
        ),
        pytest.param(
            {
                "nvidia.com/gpu.product": "Tesla-T4",
                "nvidia.com/cuda.runtime.major": "11",
                "nvidia.com/cuda.runtime.minor": "x",
                "nvidia.com/cuda.driver.major": "470",
            },
            ((7, 5), (11,), "470"),
            id="deprecated names, as far as they can be read",
        ),
    ],
)
def test_versions(labels: dict[str, str], expected: tuple[tuple[int, ...], tuple[int, ...], str]) -> None:
    found = estimated(labels)
    assert (found.compute_capability, found.cuda_version, found.driver_version) == expected


@pytest.mark.parametrize(
    ("model", "instance_types"),
    [
        ("H200-141GB", "p5e.48xlarge p5en.48xlarge a3-ultragpu-8g Standard_ND96isrf_H200_v5"),
        ("A100-40GB", "p4d.24xlarge a2-megagpu-16g Standard_ND96asr_v4"),
        ("A100-80GB", "a2-ultragpu-1g Standard_ND96amsr_A100_v4 Standard_ND96ams_A100_v4 VM.GPU.A100.80G.1"),
        ("V100-16GB", "p3.2xlarge Standard_NC24rs_v3 gx2.8x64.v100"),
        ("L4", "g6.xlarge gr6.4xlarge gr6f.4xlarge g2-standard-4"),
        ("V520", "g4ad.xlarge"),
        ("GAUDI", "dl1.24xlarge"),
        ("MI300X", "Standard_ND96is_MI300X_v5 BM.GPU.MI300X.8 gpu-mi300x8-1536gb"),
        ("MI325X", "gpu-mi325x1-256gb gpu-mi325x8-2048gb-fabric-contracted"),
        ("MI355X", "BM.GPU.MI355X-v1.8 gpu-mi355x8-2304gb-spot"),
        ("L40S", "VM.GPU.L40S.2 BM.GPU.L40S-NC.4"),
        ("GB200-186GB", "Standard_ND128isrf_NDR_GB200_v6 BM.GPU.GB200.4 BM.GPU.GB200-v3.4"),
        ("GB300", "Standard_ND128isr_GB300_v6 BM.GPU.GB300.4"),
        ("RTX-PRO-6000", "Standard_NC24lds_xl_RTXPRO6000BSE_v6 Standard_NC144ds_xl_RTXPRO6000BSE_v6"),
        ("H100-80GB", "BM.GPU.H100.8 gpu-h100x8-640gb Standard_ND96is_flex_H100_v5 gx3d.160x1792.8h100"),
        ("H100-94GB", "Standard_NC80adis_H100_v5 Standard_NCC40ads_H100_v5"),
        ("A10", "VM.GPU.A10.2 BM.GPU.A10.4"),
    ],
)
def test_instance_type_names_its_gpu(model: str, instance_types: str) -> None:
    for instance_type in instance_types.split():
        assert estimated(machine(instance_type)).model.name == model, instance_type


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param({}, id="no labels"),
        pytest.param({"nvidia.com/gpu.product": " ", "nvidia.com/gpu.count": "0"}, id="empty and zero"),
        pytest.param({"nvidia.com/gpu.present": "false"}, id="GPU said to be absent"),
        pytest.param(machine("standard_nc24rs_v3_promo"), id="more than an instance type"),
    ],
)
def test_labels_that_speak_of_no_gpu(labels: dict[str, str]) -> None:
    assert estimate_from_labels(labels, {"cpu": 4, "nvidia.com/gpu": 1}) is None


@pytest.mark.parametrize(
    ("labels", "spot"),
    [
        pytest.param({}, False, id="nothing said"),
        pytest.param({"karpenter.sh/capacity-type": "spot"}, True, id="Karpenter spot"),
        pytest.param({"eks.amazonaws.com/capacityType": "SPOT"}, True, id="EKS spot"),
        pytest.param({"lifecycle": "Ec2Spot"}, True, id="AWS CDK"),
        pytest.param({"oci.oraclecloud.com/oke-is-preemptible": "true"}, True, id="OKE preemptible"),
        pytest.param({"spotinst.io/node-lifecycle": "spot"}, True, id="Spot Ocean"),
        pytest.param({"cluster.x-k8s.io/interruptible": ""}, True, id="Cluster API"),
        pytest.param({"cloud.google.com/gke-spot": "true"}, True, id="GKE spot"),
        pytest.param({"cloud.google.com/gke-preemptible": "true"}, True, id="GKE preemptible"),
        pytest.param({"cloud.google.com/gke-provisioning": "spot"}, True, id="GKE provisioned as spot"),
        pytest.param({"cloud.google.com/gke-spot": "false"}, False, id="GKE not spot"),
        pytest.param({"kubernetes.azure.com/scalesetpriority": "spot"}, True, id="AKS spot"),
        pytest.param({"node-lifecycle": "spot"}, True, id="eksctl spot"),
        pytest.param({"node.kubernetes.io/lifecycle": "Spot"}, True, id="self-managed spot"),
    ],
)
def test_spot(labels: dict[str, str], spot: bool) -> None:
    assert is_spot(labels) is spot


@pytest.mark.parametrize(
    ("mig_state", "upgrade_state", "changing"),
    [
        pytest.param(None, None, False, id="nothing said"),
        pytest.param("success", "upgrade-required", False, id="an upgrade that has not begun"),
        pytest.param("pending", None, True, id="MIG change pending"),
        pytest.param("failed", None, True, id="MIG change failed"),
        pytest.param(None, "cordon-required", True, id="upgrade has begun"),
        pytest.param(None, "brand-new-state", True, id="an unknown state"),
    ],
)
def test_change_in_progress(mig_state: str | None, upgrade_state: str | None, changing: bool) -> None:
    labels = {"nvidia.com/mig.config.state": mig_state, "nvidia.com/gpu-driver-upgrade-state": upgrade_state}
    assert (
        change_in_progress({label: state for label, state in labels.items() if state is not None}) is changing
    )


@pytest.mark.parametrize(
    ("read", "labels", "value"),
    [
        pytest.param(failed_change, {MIG_STATE: "failed"}, f"{MIG_STATE}=failed", id="a failed MIG layout"),
        pytest.param(
            failed_change, {UPGRADE: "upgrade-failed"}, f"{UPGRADE}=upgrade-failed", id="an upgrade"
        ),
        pytest.param(failed_change, {MIG_STATE: "pending"}, "", id="a change that is under way"),
        pytest.param(one_replica, {ONE_REPLICA_LABEL: "True"}, True, id="one replica for each container"),
        pytest.param(one_replica, {ONE_REPLICA_LABEL: "false"}, False, id="several"),
        pytest.param(one_replica, {ONE_REPLICA_LABEL: "perhaps"}, None, id="an unreadable label"),
        pytest.param(one_replica, GKE_SHARED, True, id="GKE's time-sharing gives one"),
        pytest.param(one_replica, GKE_MPS, True, id="so does its MPS on several GPUs"),
        pytest.param(one_replica, GKE_MPS | {GKE_COUNT: "1"}, False, id="but on one GPU several"),
        pytest.param(
            one_replica, GKE_SHARED | {ONE_REPLICA_LABEL: "false"}, False, id="the operator decides"
        ),
        pytest.param(fraction, {INSTANCE: "g6f.xlarge"}, 8, id="an eighth of an L4"),
        pytest.param(fraction, {INSTANCE: "g6.xlarge"}, 1, id="a whole one"),
        pytest.param(fraction, EC2_PART | {f"{EC2}-memory": "5722"}, 4, id="as EC2 counts and measures it"),
        pytest.param(fraction, EC2_PART, 0, id="a fraction of unknown size"),
        pytest.param(fraction, {f"{EC2}-count": "0"}, 1, id="a machine without GPUs"),
        pytest.param(fraction, {"nvidia.com/gpu.product": "GRID-A100-10C"}, 4, id="a vGPU"),
    ],
)
def test_what_labels_say(
    read: Callable[[dict[str, str]], object], labels: dict[str, str], value: object
) -> None:
    assert read(labels) == value


MI300X = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.count": "1"}
A100 = {"karpenter.k8s.aws/instance-gpu-name": "a100", "karpenter.k8s.aws/instance-gpu-count": "1"}
MAX_1550 = {"gpu.intel.com/product": "Max_1550", "gpu.intel.com/device.count": "1"}
TESLA = {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "1"}


@pytest.mark.parametrize(
    ("labels", "memory_mib"),
    [
        pytest.param(MI300X | {"amd.com/gpu.vram": "9000T"}, 196608, id="AMD's in terabytes"),
        pytest.param(MI300X | {"amd.com/gpu.vram.9000T": "1", "amd.com/gpu.vram.64G": "1"}, 65536, id="one"),
        pytest.param(A100 | {"karpenter.k8s.aws/instance-gpu-memory": "999999999"}, None, id="Karpenter's"),
        pytest.param(TESLA | {"nvidia.com/gpu.memory": "16777217"}, 15360, id="GFD's"),
        pytest.param(TESLA | {"nvidia.com/gpu.memory": "16777216"}, 16777216, id="the most there can be"),
        pytest.param(MAX_1550 | {"gpu.intel.com/memory.max": "9" * 15}, 131072, id="Intel's"),
    ],
)
def test_memory_that_no_gpu_has_says_nothing(labels: dict[str, str], memory_mib: int | None) -> None:
    assert estimated(labels).memory_mib == memory_mib
    assert caps_from_labels(labels).memory_mib in (None, 16777216)


@pytest.mark.parametrize(
    ("labels", "pool"),
    [
        pytest.param({}, "", id="no label, no pool"),
        pytest.param({"karpenter.sh/nodepool": "gpu"}, "gpu", id="Karpenter names it"),
        pytest.param({"cloud.google.com/gke-nodepool": "a2"}, "a2", id="GKE does"),
        pytest.param({"eks.amazonaws.com/nodegroup": "p5"}, "p5", id="EKS does"),
        pytest.param({"kubernetes.azure.com/agentpool": "nc"}, "nc", id="AKS does"),
        pytest.param(
            {"node.kubernetes.io/instance-type": "p5.48xlarge", "karpenter.sh/nodepool": "gpu"},
            "gpu",
            id="the instance type is for nodes that are in no pool",
        ),
        pytest.param(
            {"karpenter.sh/nodepool": "", "eks.amazonaws.com/nodegroup": "p5"},
            "p5",
            id="an empty label is none",
        ),
    ],
)
def test_the_pool_of_a_node(labels: dict[str, str], pool: str) -> None:
    assert node_pool(labels) == pool
