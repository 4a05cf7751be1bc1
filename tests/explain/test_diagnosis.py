"""explain: the nearest miss, the pods in the way, and the change that would help, in words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.wire.config import Configuration, InspectionSection
from tests.examples import examples
from tests.explain.explaining import explained, mig, wish
from tests.extender.foreseeing import asking_pods, clusters
from tests.extender.preempting import on_gpu, on_share, share_node, whole_node
from tests.kube_objects import GFD_H100, SHARE, Json, gpu, gpu_node, node, pod

WHOLE = "nvidia.com/gpu"
AMD = "amd.com/gpu"
ONE_G = "nvidia.com/mig-1g.10gb"
ABOVE_16_GB: Json = {
    "nodeSelectorTerms": [
        {"matchExpressions": [{"key": "gpu-memory", "operator": "Gt", "values": ["16000"]}]}
    ]
}
TAINT = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
STARTING = {"key": "gpu.scheduler-ext.io/starting", "value": "true", "effect": "NoSchedule"}


HIDING = Configuration(inspection=InspectionSection(hide_other_namespaces=True))


SEVENTHS = {
    "enabled": True,
    "instances": [{"uuid": f"MIG-{i}", "profile": "1g.10gb", "start": i, "size": 1} for i in range(7)],
}


def cordoned(report: Json) -> Json:
    """With GPU 0 cordoned."""
    report["metadata"]["annotations"] = {"gpu.scheduler-ext.io/cordoned": "GPU-0"}
    return report


def secret(held: Json) -> Json:
    held["metadata"]["namespace"] = "secret"
    return held


def stopped(name: str, capacity: int, resource: str = WHOLE, labels: dict[str, str] | None = None) -> Json:
    """A node whose device plugin has stopped: the kubelet withholds its devices."""
    held = node(name, {resource: "0"}, labels=labels)
    held["status"]["capacity"] = held["status"]["capacity"] | {resource: str(capacity)}
    return held


DBE = "XID 48: double-bit ECC error; needs a GPU reset"
PRESENT = GFD_H100 | {"nvidia.com/gpu.present": "true"}


@pytest.mark.parametrize(
    ("asking", "objects", "text", "advice"),
    [
        pytest.param(
            pod("p", {WHOLE: "2"}),
            [*whole_node("a", "x", "y"), on_gpu("x", "a"), on_gpu("y", "a", priority=7)],
            "a has 0 of 2 nvidia.com/gpu free; would fit if pod default/x (priority 0) and pod default/y "
            "(priority 7) left",
            [
                "It fits on a as soon as pod default/x (priority 0) and pod default/y (priority 7) end; with "
                "a priority above 7 kube-scheduler might evict for it"
            ],
            id="all GPUs are held: who holds them",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}, priority=1000, preemptionPolicy="Never"),
            [*whole_node("a", "x"), on_gpu("x", "a")],
            "a has 0 of 1 nvidia.com/gpu free; would fit if pod default/x (priority 0) left",
            [
                "It fits on a as soon as pod default/x (priority 0) ends; no pod is evicted for it, because "
                "its preemptionPolicy is Never"
            ],
            id="a pod that evicts no other",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}, priority=1000, schedulingGates=[{"name": "gpu.scheduler-ext.io/gang"}]),
            [*whole_node("a", "x"), on_gpu("x", "a")],
            "a has 0 of 1 nvidia.com/gpu free; would fit if pod default/x (priority 0) left",
            [
                "It fits on a as soon as pod default/x (priority 0) ends; kube-scheduler evicts no pod for "
                "it while it has scheduling gates"
            ],
            id="a pod that kube-scheduler does not try",
        ),
        pytest.param(
            pod("p", {WHOLE: "16"}),
            whole_node("a", None, None),
            "a has 2 of 16 nvidia.com/gpu free",
            ["With 2 nvidia.com/gpu instead of 16 it would fit on 1 node now"],
            id="more GPUs than any node has: how many fit",
        ),
        pytest.param(
            pod("p", {SHARE: "50000"}, priority=1000),
            [*share_node("n", 2), on_share("x", 40000, "n", 0), on_share("y", 42000, "n", 1, priority=2000)],
            "n GPU 0 is 16,272 MiB short (needs 50,000, has 33,728); would fit if pod default/x (priority 0) "
            "left",
            [
                "It fits on n as soon as pod default/x (priority 0) ends; kube-scheduler may evict for it, "
                "as its priority 1000 is higher",
                "With a share of 33,728 MiB instead of 50,000 it would fit on 1 node now",
            ],
            id="a share is short: the missing amount, the pods to wait for, the amount that fits now",
        ),
        pytest.param(
            pod("p", {SHARE: "50000"}),
            [gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"})],
            "n hands out no memory shares; the pod needs 50,000 MiB",
            [
                "No node hands out memory shares: label nodes gpu.scheduler-ext.io/sharing=memory, or ask "
                "whole GPUs"
            ],
            id="a free GPU that is not handed out in shares is not short of memory",
        ),
        pytest.param(
            wish({WHOLE: "1"}, min_cuda="13.0"),
            whole_node("a", None),
            "the driver of a does not say which CUDA it supports; the pod needs 13.0",
            ["Without the annotation gpu.scheduler-ext.io/min-cuda it would fit on 1 node now"],
            id="a driver that is too old, or does not say",
        ),
        pytest.param(
            pod("p", {ONE_G: "1"}),
            [
                gpu_node("n", [gpu(0, mig=mig(("1g.10gb", 0, 1), held=(0,)))]),
                node("n", {ONE_G: "1"}),
            ],
            "n has 0 of 1 nvidia.com/mig-1g.10gb free",
            ["Wait for an instance, ask for a profile the node offers, or change its MIG configuration."],
            id="no instance of the profile is free",
        ),
        pytest.param(
            pod("p", {ONE_G: "3"}),
            [
                gpu_node("n", [gpu(0, mig=mig(("1g.10gb", 0, 1), ("1g.10gb", 1, 1), held=(0, 1)))]),
                node("n", {ONE_G: "2"}),
            ],
            "n has 0 of 3 nvidia.com/mig-1g.10gb free",
            [
                "Wait for no instance: no node has so many of the profile, even empty; request fewer or "
                "another profile, or change its MIG configuration"
            ],
            id="more instances than any node has",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}),
            [gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"}, taints=[TAINT])],
            "n: node(s) had untolerated taint(s) (has nvidia.com/gpu:NoSchedule)",
            [
                "The GPUs of 1 node would do, but kube-scheduler refuses it (node(s) had untolerated "
                "taint(s)): if the pod may run there, add to its spec.tolerations: {key: nvidia.com/gpu, "
                "operator: Exists, effect: NoSchedule}"
            ],
            id="an untolerated taint: the toleration",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}),
            [gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"}, taints=[STARTING])],
            "n: node(s) had untolerated taint(s) (has gpu.scheduler-ext.io/starting=true:NoSchedule)",
            [
                "The GPUs of 1 node would do, but kube-scheduler refuses it (node(s) had untolerated "
                "taint(s)): wait, because the taint is that of a node which starts, has a problem or ends; "
                "`kubectl describe node n` says which"
            ],
            id="a taint that passes: no toleration",
        ),
        pytest.param(
            pod("p", {WHOLE: "1", "cpu": "100"}),
            whole_node("a", None),
            "a: Insufficient cpu (needs 100, has 64)",
            [
                "The GPUs of 1 node would do, but kube-scheduler refuses it (Insufficient cpu): ask at most "
                "64 cpu, or add larger nodes"
            ],
            id="more CPU than a node has: no other pod is in the way",
        ),
        pytest.param(
            pod("p", {SHARE: "100"}),
            [node("n", {WHOLE: "1"})],
            "n has no fresh report of its GPUs (labels only): it has no report, and no label that brings an "
            "agent to it",
            [
                "No node hands out memory shares: label nodes gpu.scheduler-ext.io/sharing=memory, or ask "
                "whole GPUs",
                "Have an operator bring an agent to n with `kubectl label node n "
                "gpu.scheduler-ext.io/agent=true`",
            ],
            id="shares where only whole GPUs are known",
        ),
        pytest.param(
            pod("p", {SHARE: "100"}),
            [node("n", {}, labels=PRESENT | {"gpu.scheduler-ext.io/sharing": "memory"})],
            "n has no fresh report of its GPUs (labels only): no agent has reported on it",
            [
                "Have an operator see why no agent reports on n: `kubectl -n gpu-scheduler-agent get pods "
                "--field-selector spec.nodeName=n`, and the log of that pod"
            ],
            id="an agent that does not report",
        ),
        pytest.param(
            pod("p", {SHARE: "8192"}),
            [],
            None,
            ["There are no nodes available to schedule pods: none has been seen yet, or none exists"],
            id="no nodes at all",
        ),
        pytest.param(
            wish({WHOLE: "1"}, model="A10O"),
            [*whole_node("a", None), gpu_node("t", [gpu(0, model="T4", total=15360)])],
            "a GPU 0 is of model A100-80GB, not A10O",
            [
                "No node has a GPU of model A10O; did you mean A100?",
                "With gpu.scheduler-ext.io/model: A100-80GB,T4, or one of these, instead of A10O it would "
                "fit on 2 nodes now",
            ],
            id="a misspelt model: what may be meant",
        ),
        pytest.param(
            wish({WHOLE: "1"}, min_cuda="13.0"),
            [gpu_node("a", [gpu(0)], cudaVersion="12.4"), gpu_node("b", [gpu(0)], cudaVersion="12.8")],
            "the driver of b supports CUDA 12.8; the pod needs 13.0",
            [
                'With gpu.scheduler-ext.io/min-cuda: "12.8" instead of "13.0" it would fit on 1 node now',
                "Without the annotation gpu.scheduler-ext.io/min-cuda it would fit on 2 nodes now",
            ],
            id="drivers too old: the newest there is",
        ),
        pytest.param(
            wish({"amd.com/gpu": "1"}, min_memory="16Gi"),
            [node("n", {"amd.com/gpu": "1"}, labels={"amd.com/gpu.product-name": "Radeon_RX_7900_XTX"})],
            "n has no fresh report of its total memory (labels only): only NVIDIA GPUs have an agent",
            [
                "Have an operator state the memory of one GPU, in MiB: kubectl label node n "
                "gpu.scheduler-ext.io/gpu-memory-mib=MIB",
                "Without the annotation gpu.scheduler-ext.io/min-memory it would fit on 1 node now",
            ],
            id="memory that no agent can report: a label",
        ),
        pytest.param(
            wish({WHOLE: "1"}, min_free_memory="16Gi"),
            [gpu_node("n", [gpu(0, model="GB10", total=0)])],
            "the memory of n GPU 0 is not known: its driver does not state it; the pod needs 16,384 MiB",
            ["Without the annotation gpu.scheduler-ext.io/min-free-memory it would fit on 1 node now"],
            id="free memory that no label states",
        ),
        pytest.param(
            wish({WHOLE: "1"}, min_memory="100Gi"),
            [gpu_node("a", [gpu(0, model="T4", total=15360)]), gpu_node("b", [gpu(0)])],
            "b GPU 0 is 20,480 MiB short (needs 102,400, has 81,920)",
            [
                "With gpu.scheduler-ext.io/min-memory: 80Gi instead of 100Gi it would fit on 1 node now",
                "Without the annotation gpu.scheduler-ext.io/min-memory it would fit on 2 nodes now",
            ],
            id="GPUs too small: the largest there is",
        ),
        pytest.param(
            pod("p", {"nvidia.com/mig-7g.80gb": "1"}),
            [
                *whole_node("a", None),
                gpu_node("n", [gpu(0, mig=mig(("1g.10gb", 0, 1), ("3g.40gb", 4, 4)))]),
                node("n", {ONE_G: "1", "nvidia.com/mig-3g.40gb": "1"}),
            ],
            "n has 0 of 1 nvidia.com/mig-7g.80gb free",
            [
                "No node offers nvidia.com/mig-7g.80gb; they offer nvidia.com/mig-1g.10gb (on 1 node) or "
                "nvidia.com/mig-3g.40gb (on 1 node)",
                "With 1 nvidia.com/mig-3g.40gb instead of nvidia.com/mig-7g.80gb it would fit on 1 node now",
                "With 1 nvidia.com/mig-1g.10gb instead of nvidia.com/mig-7g.80gb it would fit on 1 node now",
            ],
            id="a profile that no node offers: those that are offered, the next in size first",
        ),
        pytest.param(
            pod("p", {"amd.com/gpu": "1"}),
            [node("a", {"cpu": "8"}), *whole_node("b", None)],
            "b has 0 of 1 amd.com/gpu free",
            ["No node offers amd.com/gpu; they offer nvidia.com/gpu (on 1 node)"],
            id="a node without GPUs is never the nearest",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}),
            [gpu_node("n", [gpu(0, health={"state": "Unhealthy", "reason": DBE})]), node("n", {WHOLE: "0"})],
            f"n GPU 0 is unhealthy ({DBE})",
            ["Have an operator see to GPU 0 of n: it needs a GPU reset"],
            id="a sick GPU with the remedy from its agent",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}),
            [node("n", {}, labels={"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"})],
            "n has 0 of 1 nvidia.com/gpu free: it has T4 by its labels, but none in its allocatable: no "
            "device plugin has registered there",
            [
                "Have an operator see to n: it has T4 by its labels, but none in its allocatable: no device "
                "plugin has registered there"
            ],
            id="GPUs by labels, and no device plugin",
        ),
        pytest.param(
            pod("p", {AMD: "1"}),
            [
                *whole_node("a", "x"),
                stopped("b", 8, AMD, {"amd.com/gpu.product-name": "AMD_Instinct_MI300X"}),
            ],
            "b has 0 of 1 amd.com/gpu free: its device plugin offers 0 of 8 by allocatable and capacity",
            [
                "No node offers amd.com/gpu; they offer nvidia.com/gpu (on 1 node)",
                "Have an operator see to b: its device plugin offers 0 of 8 by allocatable and capacity",
            ],
            id="the device plugin of the requested vendor has stopped, and another vendor has a node",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}),
            [*whole_node("a", "x"), on_gpu("x", "a"), gpu_node("n", [gpu(0), gpu(1)]), stopped("n", 2)],
            "a has 0 of 1 nvidia.com/gpu free; would fit if pod default/x (priority 0) left",
            [
                "Have an operator see to n: its device plugin offers 0 of 2 by allocatable and capacity",
                "It fits on a as soon as pod default/x (priority 0) ends; with a priority above 0 "
                "kube-scheduler might evict for it",
            ],
            id="a device plugin that has stopped, beside a full node",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}),
            [gpu_node("n", [gpu(0), gpu(1)]), node("n", {"nvidia.com/a100": "2"})],
            "n has 0 of 1 nvidia.com/gpu free: it has 2 × A100-80GB by its report, and offers "
            "nvidia.com/a100, which is not in resources.wholeGpu",
            [
                "Have an operator see to n: it has 2 × A100-80GB by its report, and offers nvidia.com/a100, "
                "which is not in resources.wholeGpu"
            ],
            id="GPUs under another name",
        ),
        pytest.param(
            pod("p", {WHOLE: "1", ONE_G: "1"}),
            [
                *whole_node("a", None),
                gpu_node("n", [gpu(0, mig=mig(("1g.10gb", 0, 1)))]),
                node("n", {ONE_G: "1"}),
            ],
            "n has 0 of 1 nvidia.com/gpu free",
            [
                "No node offers nvidia.com/gpu and nvidia.com/mig-1g.10gb together: ask for them in pods of "
                "their own"
            ],
            id="resources that no node has side by side",
        ),
        pytest.param(
            pod("p", containers=[{"name": c, "resources": {"limits": {SHARE: "40000"}}} for c in "abc"]),
            share_node("n", 2),
            "n GPU 0 is 6,272 MiB short (needs 40,000, has 33,728)",
            ["With no share above 36,864 MiB it would fit on 1 node now"],
            id="several shares: how large all may be",
        ),
        pytest.param(
            wish({WHOLE: "1"}, model="T4"),
            [
                *whole_node("a", None),
                gpu_node("n", [gpu(0, model="T4", total=15360)]),
                node("n", {WHOLE: "1"}, labels={"nvidia.com/mig.config.state": "pending"}),
            ],
            "n has a GPU change in progress: its MIG layout or its driver",
            [
                "Wait until nvidia.com/mig.config.state is success and the driver upgrade is done.",
                "With gpu.scheduler-ext.io/model: A100-80GB instead of T4 it would fit on 1 node now",
            ],
            id="what passes by itself is nearer than another model",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}),
            [
                gpu_node("n", [gpu(0)]),
                node("n", {WHOLE: "1"}, labels={"nvidia.com/mig.config.state": "failed"}),
            ],
            "a change of the GPUs of n failed (nvidia.com/mig.config.state=failed)",
            [
                "Have an operator read the log of the MIG manager on n, and set nvidia.com/mig.config to a "
                "layout that it can apply: the node takes no pods until the state is success"
            ],
            id="a failed change",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}),
            [cordoned(gpu_node("n", [gpu(0), gpu(1)])), node("n", {WHOLE: "2"})],
            "n has 0 of 1 nvidia.com/gpu free; GPU 0 is cordoned, and the kubelet might hand it out",
            [
                "Have an operator repair the cordoned GPUs of n and end their cordon, or take them from its "
                "device plugin: while one is free, the node takes no such pod"
            ],
            id="a cordoned GPU that is free closes its node",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}),
            [gpu_node("n", [gpu(0, mig={"enabled": True})], migStrategy="single"), node("n", {WHOLE: "0"})],
            "n has 0 of 1 nvidia.com/gpu free; GPU 0 is in MIG mode without instances",
            [
                "No node offers nvidia.com/gpu",
                "Have an operator give n a MIG layout that its device plugin hands out, or turn its MIG mode "
                "off (with the MIG manager: the label nvidia.com/mig.config)",
            ],
            id="a GPU in MIG mode without instances",
        ),
        pytest.param(
            pod("p", {WHOLE: "2"}),
            [gpu_node("n", [gpu(0)], sharing={"strategy": "mps", "replicas": 4})],
            "n shares its GPUs by time-slicing or MPS; the pod needs whole GPUs",
            ["With 1 nvidia.com/gpu instead of 2 it would fit on 1 node now"],
            id="under MPS no sharing mode helps a pod of two",
        ),
        pytest.param(
            wish({WHOLE: "2"}, sharing="any"),
            [gpu_node("n", [gpu(0)], sharing={"strategy": "mps", "replicas": 4})],
            "n shares its GPUs by MPS, and its device plugin refuses a container of 2 replicas",
            ["With 1 nvidia.com/gpu instead of 2 it would fit on 1 node now"],
            id="nor one that takes any",
        ),
        pytest.param(
            pod("p", {WHOLE: "4"}),
            [
                *whole_node("a", None, None, None),
                gpu_node("n", [gpu(0)]),
                node("n", {WHOLE: "1"}, labels={"nvidia.com/mig.config.state": "pending"}),
            ],
            "a has 3 of 4 nvidia.com/gpu free",
            ["With 3 nvidia.com/gpu instead of 4 it would fit on 1 node now"],
            id="but not where it would not fit afterwards either",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}, nodeSelector={"zone": "east"}),
            [gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"}, labels={"zone": "west"})],
            "n: node(s) didn't match Pod's node affinity/selector (needs zone=east, has zone=west)",
            [
                "The GPUs of 1 node would do, but kube-scheduler refuses it (node(s) didn't match Pod's node "
                "affinity/selector): change spec.nodeSelector or the node affinity, or label nodes to match; "
                "their zone is west"
            ],
            id="a nodeSelector on another value: which there are",
        ),
        pytest.param(
            wish({WHOLE: "1"}, model="A100-80GB"),
            [gpu_node("a", [gpu(0, mig=SEVENTHS)], migStrategy="single"), node("a", {WHOLE: "7"})],
            "a GPU 0 of model A100-80GB is offered as A100-80GB-MIG-1G.10GB, not A100-80GB",
            [
                "With gpu.scheduler-ext.io/model: A100-80GB-MIG-1G.10GB instead of A100-80GB it would fit "
                "on 1 node now"
            ],
            id="instances that go by another name than their GPU",
        ),
        pytest.param(
            pod(
                "p",
                {WHOLE: "1"},
                nodeSelector={"accelerator": "nvidia-tesla-v100"},
                affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ABOVE_16_GB}},
            ),
            [gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"})],
            "n: node(s) didn't match Pod's node affinity/selector (needs accelerator=nvidia-tesla-v100)",
            [
                "The GPUs of 1 node would do, but kube-scheduler refuses it (node(s) didn't match Pod's node "
                "affinity/selector): change spec.nodeSelector or the node affinity, or label nodes to match; "
                "none of them has a label accelerator or gpu-memory; choose the model with the annotation "
                'gpu.scheduler-ext.io/model: "V100"; choose by memory with the annotation '
                'gpu.scheduler-ext.io/min-memory: "16000Mi"'
            ],
            id="labels of other clusters: the annotations for the same",
        ),
        pytest.param(
            pod("p", {WHOLE: "1"}, nodeSelector={"accelerator": "nvidia", "gpu-vram": "80GB"}),
            [gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"})],
            "n: node(s) didn't match Pod's node affinity/selector (needs accelerator=nvidia)",
            [
                "The GPUs of 1 node would do, but kube-scheduler refuses it (node(s) didn't match Pod's node "
                "affinity/selector): change spec.nodeSelector or the node affinity, or label nodes to match; "
                "none of them has a label accelerator or gpu-vram; choose by memory with the annotation "
                'gpu.scheduler-ext.io/min-memory: "80G"'
            ],
            id="a value that names no GPU, and a size as it is sold",
        ),
        pytest.param(
            pod("p", {"nvidia.com/gpus": "1"}),
            [gpu_node("n", [gpu(0)]), node("n", {WHOLE: "1"})],
            "n: Insufficient nvidia.com/gpus (needs 1, has 0)",
            [
                "The GPUs of 1 node would do, but kube-scheduler refuses it (Insufficient nvidia.com/gpus): "
                "no node has nvidia.com/gpus in its allocatable; correct the name, or add nodes that offer it"
            ],
            id="a resource that no node has: less of it does not help",
        ),
        pytest.param(
            wish({WHOLE: "1"}, model="H100", min_memory="100Gi"),
            whole_node("a", None),
            "a GPU 0 is of model A100-80GB, not H100",
            [
                "No node has a GPU of model H100; did you mean A100?",
                "Without any of the annotations gpu.scheduler-ext.io/model, gpu.scheduler-ext.io/min-memory "
                "it would fit on 1 node now",
            ],
            id="two wishes that nothing meets",
        ),
    ],
)
def test_a_waiting_pod_is_reported(
    asking: Json, objects: list[Json], text: str | None, advice: list[str]
) -> None:
    explanation = explained(asking, *(objects or [pod("elsewhere")]))
    nearest = explanation["nearest"]
    assert (nearest["text"] if nearest else None, explanation["advice"]) == (text, advice)
    assert sum(explanation["counts"].values()) == len(explanation["nodes"])


def test_a_pod_that_fits_needs_no_advice() -> None:
    explanation = explained(pod("p", {WHOLE: "1"}), *whole_node("a", None), *whole_node("b", "x"))
    told = (explanation["counts"], explanation["nearest"], explanation["advice"])
    assert told == ({"Insufficient nvidia.com/gpu per device": 1}, None, [])


@pytest.mark.parametrize(
    ("config", "told", "named"),
    [
        pytest.param(Configuration(), "pod secret/x (priority 0)", "x", id="named by default"),
        pytest.param(HIDING, "a pod of another namespace (priority 0)", None, id="counted if so configured"),
    ],
)
def test_pods_of_other_namespaces(config: Configuration, told: str, named: str | None) -> None:
    held = secret(on_share("x", 60_000, "n", 0))
    explanation = explained(pod("p", {SHARE: "50000"}), *share_node("n", 1), held, config=config)
    assert told in explanation["nearest"]["text"]
    assert explanation["nearest"]["wouldFitWithout"][0]["name"] == named
    assert ("secret" in str(explanation)) is (named is not None)


def test_unnamed_pods_that_are_alike_are_counted() -> None:
    held = [secret(on_share(name, 30_000, "n", 0)) for name in ("x", "y")]
    explanation = explained(pod("p", {SHARE: "70000"}), *share_node("n", 1), *held, config=HIDING)
    assert explanation["nearest"]["text"].endswith(
        "would fit if 2 pods of other namespaces (priority 0) left"
    )
    assert len(explanation["nearest"]["wouldFitWithout"]) == 2


@examples(20, long=150)
@given(clusters(), asking_pods())
def test_a_pod_fits_on_the_nearest_node_without_the_pods_in_the_way_and_not_with_one_of_them(
    objects: list[Json], asking: Json
) -> None:
    nearest = explained(asking, *objects)["nearest"]
    if nearest is None or not nearest["wouldFitWithout"]:
        return
    names = [leaver["name"] for leaver in nearest["wouldFitWithout"]]

    def fits_without(gone: list[str]) -> bool:
        # An agent's report on departed pods outlives them, so they appear as finished ones.
        left = [
            each | {"status": {"phase": "Succeeded"}} if each["metadata"]["name"] in gone else each
            for each in objects
        ]
        explanation = explained(asking, *left)
        return any(
            entry["node"] == nearest["node"]
            for entry in explanation["nodes"]
            if entry["by"] == "gpu" and entry["verdict"] == "fits"
        )

    assert fits_without(names)
    for name in names:
        assert not fits_without([other for other in names if other != name])


@examples(20, long=150)
@given(clusters(), asking_pods(), st.sampled_from(["A100-40GB", "H100", "A100"]))
def test_the_suggested_amounts_do_fit(objects: list[Json], asking: Json, model: str) -> None:
    asking["metadata"]["annotations"] = {"gpu.scheduler-ext.io/model": model}
    explanation = explained(asking, *objects)
    for advice in explanation["advice"]:
        without = re.match(r"Without the annotation (\S+) it would fit on ([\d,]+) node", advice)
        other = re.match(
            r"With (gpu\S+): (\S+?)(?:, or one of these,)? instead of .* on ([\d,]+) node", advice
        )
        capped = re.match(r"With no share above ([\d,]+) MiB it would fit on ([\d,]+) node", advice)
        smaller = re.match(r"With a share of ([\d,]+) MiB instead of .* would fit on ([\d,]+) node", advice)
        fewer = re.match(r"With (\d+) (\S+) instead of \d+ it would fit on ([\d,]+) node", advice)
        changed = pod("changed", annotations=dict(asking["metadata"]["annotations"]))
        changed["spec"] = {**asking["spec"], "containers": [dict(c) for c in asking["spec"]["containers"]]}
        limits = [dict(c["resources"]["limits"]) for c in changed["spec"]["containers"]]
        if without is not None:
            del changed["metadata"]["annotations"][without[1]]
            count = without[2]
        elif other is not None:
            changed["metadata"]["annotations"][other[1]] = other[2].strip('"')
            count = other[3]
        elif capped is not None:
            most = int(capped[1].replace(",", ""))
            for each in limits:
                if SHARE in each:
                    each[SHARE] = str(min(int(each[SHARE]), most))
            count = capped[2]
        elif smaller is not None:
            next(each for each in limits if SHARE in each)[SHARE] = smaller[1].replace(",", "")
            count = smaller[2]
        elif fewer is not None:
            next(each for each in limits if fewer[2] in each)[fewer[2]] = fewer[1]
            count = fewer[3]
        else:
            continue
        for container, each in zip(changed["spec"]["containers"], limits, strict=True):
            container["resources"] = {"limits": each}
        fitting = [entry for entry in explained(changed, *objects)["nodes"] if entry["verdict"] == "fits"]
        assert len(fitting) == int(count.replace(",", ""))
