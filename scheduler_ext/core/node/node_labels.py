"""What single node labels say about GPUs: their names, precedence and units. For every fact there is an
ordered list of labels; an absent or unreadable one means the next. Sources of the names: NVIDIA GPU Feature
Discovery (k8s-device-plugin), the documentation of GKE, Karpenter, EKS Auto Mode, AKS, CoreWeave,
DigitalOcean, Oracle, Alibaba Cloud and IBM Cloud ("Monitoring NVIDIA GPUs"), the AMD node labeller
(ROCm/k8s-device-plugin), Intel's NFD rules (intel-device-plugins-for-kubernetes), Gaudi Feature Discovery,
and for Nebius SkyPilot (NebiusLabelFormatter in sky/provision/kubernetes/utils.py). `estimate` joins the
facts."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import takewhile
from typing import Literal, TypeAlias

from scheduler_ext.core.gpu.mig_profile import parse_profile
from scheduler_ext.core.gpu.model_table import (
    AMD_DEVICES,
    AMD_PARTITIONS,
    INSTANCE_TYPE_ROWS,
    InstanceTypeRow,
)
from scheduler_ext.core.gpu.models import canonical_model, is_display, vgpu_fraction

Labels = Mapping[str, str]

NVIDIA = "nvidia.com/"
GFD_PRODUCT = "nvidia.com/gpu.product"
GFD_COUNT = "nvidia.com/gpu.count"
GKE = "cloud.google.com/gke-"
# Karpenter's and EKS Auto Mode's label families, each with -name, -manufacturer, -count and -memory.
AWS = ("eks.amazonaws.com/instance-gpu", "karpenter.k8s.aws/instance-gpu")
_AZURE = "karpenter.azure.com/sku-gpu"
_AMD = ("amd.com/gpu", "beta.amd.com/gpu")
_ACK = "aliyun.accelerator/nvidia"
_DOKS = "doks.digitalocean.com/gpu"
_INSTANCE_TYPE = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")

MODEL_LABEL = "gpu.scheduler-ext.io/model"
MEMORY_LABEL = "gpu.scheduler-ext.io/gpu-memory-mib"
# A taint of a node whose GPUs are not known yet. cluster-autoscaler knows the second by its prefix, where its
# flags cannot be set.
STARTING_TAINT = "gpu.scheduler-ext.io/starting"
MANAGED_STARTING_TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/gpu.scheduler-ext.io"
VENDORS = ("nvidia", "amd", "intel", "habana")
# (model label, its vendor or the label that names it)
_MODEL_LABELS = (
    (GFD_PRODUCT, "nvidia"),
    (f"{GKE}accelerator", "nvidia"),
    *((f"{family}-name", f"{family}-manufacturer") for family in (*AWS, _AZURE)),
    *((f"{prefix}.product-name", "amd") for prefix in _AMD),
    ("habana.ai/device.type", "habana"),
    ("gpu.intel.com/product", "intel"),
    ("gpu.nvidia.com/model", "nvidia"),
    ("gpu.nvidia.com/class", "nvidia"),
    (f"{_DOKS}-model", f"{_DOKS}-brand"),
    ("nebius.com/gpu-name", "nvidia"),
    (f"{_ACK}_name", "nvidia"),
    (MODEL_LABEL, "nvidia"),
)
# A cloud's own name that is another product's elsewhere. Nebius' platform gpu-rtx6000 has the RTX PRO 6000.
_OWN_NAMES = {("nebius.com/gpu-name", "RTX6000"): "RTX-PRO-6000"}
# Labels that say only whose GPUs there are: (label, value that says so or None for a count, vendor).
_VENDOR_LABELS = (
    (f"{NVIDIA}gpu.present", "true", "nvidia"),
    (GFD_COUNT, None, "nvidia"),
    ("kubernetes.azure.com/accelerator", "nvidia", "nvidia"),
    ("accelerator", "nvidia", "nvidia"),
    ("ibm-cloud.kubernetes.io/gpu-enabled", "true", "nvidia"),
    ("gpu.intel.com/device.count", None, "intel"),
    ("habana.ai/device.count", None, "habana"),
)
VALUE_LABEL = "gpu.scheduler-ext.io/value"
_VALUE = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
MAX_VALUE = 1e6
# As the field of this name in the configuration of NVIDIA's device plugin, which no label states.
ONE_REPLICA_LABEL = "gpu.scheduler-ext.io/fail-requests-greater-than-one"
AGENT_LABEL = "gpu.scheduler-ext.io/agent"
AgentLabel: TypeAlias = Literal["brings", "lacks", "keeps away"]
"""Whether the labels of a node bring an agent to it. "keeps away": no, by an administrator's label."""
HANDED_OUT_BY_LABEL = "gpu.scheduler-ext.io/handed-out-by"
Way: TypeAlias = Literal["claims", "device plugin"]
"""How GPUs are handed out: through DRA, or through a device plugin or as memory shares."""
_WAYS: Mapping[str, Way] = {"dra": "claims", "device-plugin": "device plugin"}
# Labels that bring an agent to a node, with the value that does; None: any. As in the DaemonSet's affinity.
_AGENT_LABELS = (
    (AGENT_LABEL, "true"),
    (f"{NVIDIA}gpu.present", "true"),
    ("feature.node.kubernetes.io/pci-10de.present", "true"),
    (f"{GKE}accelerator", None),
    *((f"{family}-manufacturer", "nvidia") for family in (*AWS, _AZURE)),
    ("kubernetes.azure.com/accelerator", "nvidia"),
)
_CLOUD_COUNTS = tuple(f"{family}-count" for family in (*AWS, _AZURE))
# Counts of physical GPUs, but for GFD's, which is read apart: it counts MIG devices under strategy single.
COUNT_LABELS = {
    "nvidia": (f"{GKE}accelerator-count", *_CLOUD_COUNTS, "gpu.nvidia.com/count", f"{_ACK}_count"),
    "amd": _CLOUD_COUNTS,
    "habana": (*_CLOUD_COUNTS, "habana.ai/device.count"),
    "intel": ("gpu.intel.com/device.count",),
}
_SPOT_LABELS = (
    ("karpenter.sh/capacity-type", "spot"),
    ("eks.amazonaws.com/capacityType", "spot"),
    (f"{GKE}spot", "true"),
    (f"{GKE}preemptible", "true"),
    (f"{GKE}provisioning", "spot"),
    (f"{GKE}provisioning", "preemptible"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
    # Of eksctl's unmanaged node groups, and by convention of other self-managed ones.
    ("node-lifecycle", "spot"),
    ("node.kubernetes.io/lifecycle", "spot"),
    # Self-managed groups of the AWS CDK.
    ("lifecycle", "ec2spot"),
    ("oci.oraclecloud.com/oke-is-preemptible", "true"),
    ("spotinst.io/node-lifecycle", "spot"),
    # Cluster API sets it without a value.
    ("cluster.x-k8s.io/interruptible", ""),
    ("cluster.x-k8s.io/interruptible", "true"),
)
# Tools that create nodes label them with their group; the instance type remains if no tool did.
POOL_LABELS = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "node.kubernetes.io/instance-type",
)
_REPLICAS = re.compile(r"nvidia\.com/(?:gpu|mig-\d[^/]*)\.replicas")
_SHARING = {"time-slicing": "time-slicing", "time-sharing": "time-slicing", "mps": "mps"}
_MIG_STATE = f"{NVIDIA}mig.config.state"
_UPGRADE_STATE = f"{NVIDIA}gpu-driver-upgrade-state"
_SETTLED_UPGRADES = ("", "upgrade-done", "upgrade-required")
# AMD's labeller writes the first, its operator's documentation has the second.
_AMD_PARTITION_LABELS = ("amd.com/gpu.compute-memory-partition", "amd.com/compute-memory-partition")
# What libdrm says of a GPU that it does not know (AMD GPU Operator, release notes).
_AMD_UNNAMED = "AMD_Radeon_Graphics"

_SIZE = re.compile(r"([0-9]{1,9})([MGT])(?:i?B)?", re.IGNORECASE)
_MIB = {"M": 1, "G": 1024, "T": 1024 * 1024}
# As a report's: no GPU has more, and sums over a node stay inside 32 bits.
MAX_MEMORY_MIB = 2**24
# Of the GPUNode's field `replicas`.
MAX_REPORTED_REPLICAS = 1000
_VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,3}")


def natural(text: str | None, *, digits: int = 9) -> int | None:
    """Return a label value that is a whole number >= 0 of at most so many digits, else None."""
    if text is None or len(text) > digits or not (text.isascii() and text.isdigit()):
        return None
    return int(text)


def is_spot(labels: Labels) -> bool:
    """Whether the node may be taken back at short notice (spot, preemptible)."""
    return any(label in labels and labels[label].lower() == value for label, value in _SPOT_LABELS)


def value_text(labels: Labels, annotations: Labels) -> str | None:
    """The text for the value of one GPU of the node; the label comes before the annotation."""
    return labels.get(VALUE_LABEL, annotations.get(VALUE_LABEL))


def stated_value(text: str | None) -> float:
    """The value that a text states; 0 without one, or if it is no positive number."""
    return min(float(text), MAX_VALUE) if text is not None and _VALUE.fullmatch(text) else 0.0


def one_replica(labels: Labels) -> bool | None:
    """Whether the device plugin refuses containers of more than one replica: as the operator of the node
    states it, or as that of GKE does, which gives several only of a single GPU shared by MPS
    (GoogleCloudPlatform/container-engine-accelerators, ValidateRequest in pkg/gpu/nvidia/gpusharing). None
    where no label says."""
    stated = {"true": True, "false": False}.get(labels.get(ONE_REPLICA_LABEL, "").lower())
    on_gke = _SHARING.get(labels.get(f"{GKE}gpu-sharing-strategy", "").lower())
    if stated is not None or on_gke is None:
        return stated
    return on_gke != "mps" or natural(labels.get(f"{GKE}accelerator-count")) != 1


def change_in_progress(labels: Labels) -> bool:
    """Whether a MIG reconfiguration or a driver upgrade is under way, or has failed, by the MIG manager's and
    the GPU Operator's state labels; an unknown state counts as in progress, an empty one says nothing."""
    mig_state, upgrade_state = labels.get(_MIG_STATE, ""), labels.get(_UPGRADE_STATE, "")
    return mig_state not in ("", "success") or upgrade_state not in _SETTLED_UPGRADES


def failed_change(labels: Labels) -> str:
    """The label that says that such a change has failed; "" if none does."""
    if labels.get(_MIG_STATE) == "failed":
        return f"{_MIG_STATE}=failed"
    return f"{_UPGRADE_STATE}=upgrade-failed" if labels.get(_UPGRADE_STATE) == "upgrade-failed" else ""


def agent_label(labels: Labels) -> AgentLabel:
    """Whether the labels bring an agent to the node, as the DaemonSet's affinity reads them."""
    brings = any(label in labels and wanted in (None, labels[label]) for label, wanted in _AGENT_LABELS)
    if brings and labels.get(AGENT_LABEL) != "false":
        return "brings"
    return "keeps away" if AGENT_LABEL in labels else "lacks"


def handed_out_by(labels: Labels) -> Way | None:
    """How a node that a device plugin and DRA offer the same GPUs of is to hand them out; None if its label
    does not say."""
    return _WAYS.get(labels.get(HANDED_OUT_BY_LABEL, "").strip().lower())


def product(labels: Labels) -> tuple[str, str] | None:
    """Return (product string, vendor) of the first label that names a product. The product is "" on a node of
    several AMD products, which has one label for each. AMD's device id counts where no product is named."""
    for label, maker in _MODEL_LABELS:
        name = labels.get(label, "").strip()
        if name and not is_display(name) and name != _AMD_UNNAMED:
            vendor = labels.get(maker, "").lower() if "/" in maker else maker
            return _OWN_NAMES.get((label, name), name), vendor if vendor in VENDORS else "nvidia"
    ids = _amd_values(labels, "device-id")
    named = [name for name in _amd_values(labels, "product-name") if name != _AMD_UNNAMED]
    names = named or [AMD_DEVICES[id] for id in ids if id in AMD_DEVICES]
    names = list(dict.fromkeys(names))
    return (names[0] if len(names) == 1 else "", "amd") if names else None


def mig_is_invalid(labels: Labels) -> bool:
    """Whether GPU Feature Discovery calls the MIG layout invalid for strategy single: GPUs without instances,
    unlike instances, or GPUs in MIG mode beside others. The product is then that of the GPU, and count and
    memory are 0 (k8s-device-plugin, newInvalidMigStrategyLabeler in internal/lm)."""
    return labels.get(GFD_PRODUCT, "").upper().endswith("-MIG-INVALID")


def vendor_only(labels: Labels) -> str | None:
    """Return the vendor of GPUs whose product no label names."""
    for label, value, vendor in _VENDOR_LABELS:
        text = labels.get(label, "")
        if text.lower() == value if value is not None else natural(text):
            return vendor
    return "amd" if _amd_values(labels, "vram") else None


def instance_type(labels: Labels) -> InstanceTypeRow | None:
    """Return what the node's cloud instance type is known to carry."""
    return _instance_type(next((labels[label] for label in _INSTANCE_TYPE if labels.get(label)), "").lower())


def fraction(labels: Labels) -> int:
    """n where the node's GPU is 1/n of one: by its instance type, by EC2, which counts 0 and states the
    memory (g6f), or by the name of a vGPU. 1 for whole GPUs, 0 for a fraction of unknown size."""
    machine = instance_type(labels)
    if machine is not None and machine.fraction > 1:
        return machine.fraction
    for family in AWS:
        name = labels.get(f"{family}-name")
        if name and natural(labels.get(f"{family}-count")) == 0:
            own, whole = natural(labels.get(f"{family}-memory")), canonical_model(name).memory_mib
            return max(2, round(whole / own)) if own and whole else 0
    return vgpu_fraction(labels.get(GFD_PRODUCT, ""))


@lru_cache(maxsize=1024)
def _instance_type(name: str) -> InstanceTypeRow | None:
    return next((row for row in INSTANCE_TYPE_ROWS if re.fullmatch(row.pattern, name)), None)


def gfd_memory_mib(labels: Labels) -> int | None:
    """Return GFD's total memory (MiB) of one device as pods get it (one slice under strategy single). Older
    releases may have measured a GPU for displays."""
    if is_display(labels.get(GFD_PRODUCT, "")):
        return None
    return possible_mib(natural(labels.get(f"{NVIDIA}gpu.memory")))


def possible_mib(mib: int | None) -> int | None:
    """Return an amount of memory that one GPU may have; a mistyped value is ignored."""
    return mib if mib and mib <= MAX_MEMORY_MIB else None


def memory_mib(labels: Labels, vendor: str) -> int | None:
    """Return the total memory (MiB) of one GPU as labels state it; the least on a node with several sizes."""
    mib = gfd_memory_mib(labels) if vendor == "nvidia" else None
    if vendor != "intel":
        for family in AWS:
            mib = mib or possible_mib(natural(labels.get(f"{family}-memory")))
    if mib is None and vendor == "amd":
        known = map(_sized_mib, _amd_values(labels, "vram"))
        mib = min((size for size in known if size), default=None)
    if mib is None and vendor == "nvidia":
        text = labels.get(f"{_ACK}_mem", "")
        mib = possible_mib(natural(text)) or _sized_mib(text)
    return mib or stated_memory_mib(labels)


def rounded_memory_mib(labels: Labels) -> int | None:
    """Return the memory of one GPU that CoreWeave states, in whole thousands of MiB: its documentation calls
    them gigabytes, and nodes of H100 with 81559 MiB have 81 (skypilot-org/skypilot, issue 6701)."""
    return possible_mib(1000 * (natural(labels.get("gpu.nvidia.com/vram"), digits=6) or 0))


def stated_memory_mib(labels: Labels) -> int | None:
    """Return what an administrator states of one GPU (MiB) whose driver does not."""
    return possible_mib(natural(labels.get(MEMORY_LABEL)))


def _sized_mib(text: str) -> int | None:
    size = _SIZE.fullmatch(text)
    return possible_mib(int(size[1]) * _MIB[size[2].upper()]) if size else None


def amd_partitions(labels: Labels) -> tuple[str, int]:
    """Return the AMD partition mode that cuts each GPU ("cpx_nps4") and into how many; ("", 1) if none."""
    mode = next((labels[label] for label in _AMD_PARTITION_LABELS if labels.get(label)), "").lower()
    count = AMD_PARTITIONS.get(mode.partition("_")[0])
    return (mode, count) if count is not None else ("", 1)


def sharing(labels: Labels) -> tuple[str, int]:
    """Return the sharing strategy (none, time-slicing, mps) and how many pods may share one GPU (>= 1)."""
    # 0 replicas is GFD's word for a full GPU in MIG mode, which is not shared.
    replicas = natural(labels.get(f"{NVIDIA}gpu.replicas")) or 1
    strategy = _SHARING.get(labels.get(f"{NVIDIA}gpu.sharing-strategy", "").lower())
    if strategy is not None:
        return strategy, replicas
    strategy = _SHARING.get(labels.get(f"{GKE}gpu-sharing-strategy", "").lower())
    if strategy is not None:
        return strategy, natural(labels.get(f"{GKE}max-shared-clients-per-gpu")) or 1
    looks_shared = replicas > 1 or labels.get(GFD_PRODUCT, "").endswith("-SHARED")
    if looks_shared and f"{NVIDIA}gpu.sharing-strategy" not in labels:
        return "time-slicing", replicas  # before GFD wrote the strategy there was no other
    return "none", 1


def own_replicas(labels: Labels) -> Iterator[tuple[str, int]]:
    """How many pods share a whole GPU, as "", and an instance of each profile, as far as GFD says so."""
    for label in sorted(filter(_REPLICAS.fullmatch, labels)):
        # 0 as in `sharing`.
        count, profile = natural(labels[label]), label.removeprefix(NVIDIA).removesuffix(".replicas")
        if count and profile == "gpu":
            yield "", count
        elif count:
            with suppress(ValueError):
                yield parse_profile(profile.removeprefix("mig-")), count


def compute_capability(labels: Labels) -> tuple[int, int] | None:
    major = natural(labels.get(f"{NVIDIA}gpu.compute.major"))
    minor = natural(labels.get(f"{NVIDIA}gpu.compute.minor"))
    return (major, minor) if major and minor is not None else None


def cuda_version(labels: Labels) -> tuple[int, ...] | None:
    version = _version(labels, f"{NVIDIA}cuda.runtime-version", "major", "minor")
    version = version or _version(labels, f"{NVIDIA}cuda.runtime", "major", "minor")
    return tuple(int(part) for part in version.split(".")) if version else None


def driver_version(labels: Labels) -> str | None:
    version = _version(labels, f"{NVIDIA}cuda.driver-version", "major", "minor", "revision")
    version = version or _version(labels, f"{NVIDIA}cuda.driver", "major", "minor", "rev")
    on_gke = labels.get(f"{GKE}gpu-driver-version", "")  # often a channel such as "latest"
    return version or (on_gke if _VERSION.fullmatch(on_gke) else None)


def _version(labels: Labels, prefix: str, *parts: str) -> str | None:
    """The whole version, or its parts from the first on as far as they are numbers."""
    full = labels.get(f"{prefix}.full", "")
    if _VERSION.fullmatch(full):
        return full
    texts = (labels.get(f"{prefix}.{part}", "") for part in parts)
    return ".".join(takewhile(lambda text: natural(text) is not None, texts)) or None


def _amd_values(labels: Labels, kind: str) -> list[str]:
    """The values of one AMD fact: of one label, or of one per value on mixed nodes (`…gpu.vram.64G=4`)."""
    single = [labels[name] for prefix in _AMD if labels.get(name := f"{prefix}.{kind}")]
    each = [
        sorted(label.removeprefix(start) for label in labels if label.startswith(start))
        for start in (f"{prefix}.{kind}." for prefix in _AMD)
    ]
    return single[:1] or next(filter(None, each), [])


def node_pool(labels: Labels) -> str:
    """The node pool that labels name, otherwise the type of instance; "" where no label names either."""
    return next((labels[name] for name in POOL_LABELS if labels.get(name)), "")
