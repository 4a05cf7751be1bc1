"""Why a node has no fresh report of its GPUs, and what an operator can do about it, in words."""

from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.node_labels import AGENT_LABEL, MEMORY_LABEL
from scheduler_ext.core.request.resource_names import vendor_of

# Vendors that have an agent; the GPUs of other vendors are known by labels only.
REPORTED_VENDORS = ("nvidia",)
_AGENT_NAMESPACE = "gpu-scheduler-agent"


def cause(info: NodeInfo) -> str:
    """Why there is no fresh report, as a clause about the node."""
    report = info.report
    if report is not None and not report.from_slices:
        when = f" of {report.reported_at}" if report.reported_at else ""
        kept = f", and its label {AGENT_LABEL} keeps the agent away" if _is_kept(info) else ""
        return f"its last report{when} is too old{kept}"
    if _has_no_agent(info):
        return "only NVIDIA GPUs have an agent"
    if info.agent_label == "lacks":
        return "it has no report, and no label that brings an agent to it"
    if _is_kept(info):
        return f"it has no report, and its label {AGENT_LABEL} keeps the agent away"
    return "no agent has reported on it"


def remedy(info: NodeInfo) -> str | None:
    """The step towards a fresh report, as an operator's task; None if there can be none."""
    if _has_no_agent(info):
        return None
    label = f"kubectl label node {info.name} {AGENT_LABEL}=true"
    if _is_kept(info):
        return f"allow the agent on {info.name}, if it may run there, with `{label} --overwrite`"
    if (info.report is None or info.report.from_slices) and info.agent_label == "lacks":
        return f"bring an agent to {info.name} with `{label}`"
    pods = f"kubectl -n {_AGENT_NAMESPACE} get pods --field-selector spec.nodeName={info.name}"
    return f"see why no agent reports on {info.name}: `{pods}`, and the log of that pod"


def label_memory(info: NodeInfo) -> str:
    """The step towards a known memory of its GPUs, as an operator's task."""
    return f"state the memory of one GPU, in MiB: kubectl label node {info.name} {MEMORY_LABEL}=MIB"


def effect(info: NodeInfo) -> str | None:
    """Why there is no fresh report, and what the node takes without one; None while that is not overdue."""
    return None if info.freshness == "Fresh" else f"{cause(info)}: {takes(info)}"


def takes(info: NodeInfo) -> str:
    """What the node takes without a fresh report, as a clause."""
    if info.share_node and not _hands_out_gpus(info):
        return "it takes no memory share"
    if info.by_allocatable:
        return "it takes whole GPUs and MIG instances by its allocatable alone"
    return "it takes no pod with GPUs"


def _hands_out_gpus(info: NodeInfo) -> bool:
    named = (name for name, count in (info.allocatable or {}).items() if count > 0)
    return any(name.startswith(MIG_PREFIX) or vendor_of(name) is not None for name in named)


def _is_kept(info: NodeInfo) -> bool:
    return info.agent_label == "keeps away"


def _has_no_agent(info: NodeInfo) -> bool:
    return info.estimate is not None and info.estimate.vendor not in REPORTED_VENDORS


def lacks_agent(info: NodeInfo, *, has_nvidia: bool) -> bool:
    """Whether a node with NVIDIA GPUs has no label that brings an agent, and no agent that reports.
    `has_nvidia`: its device plugin hands some out; ResourceSlices list others. A node that is labelled for
    memory shares has no device plugin: its administrator says that it has GPUs."""
    reports = info.report is not None and not info.report.from_slices and info.freshness != "Missing"
    if info.agent_label != "lacks" or reports:
        return False
    listed = info.dra.devices if info.dra is not None else ()
    shares = info.share_node and not _has_no_agent(info)
    return has_nvidia or shares or any(device.vendor in REPORTED_VENDORS for device in listed)
