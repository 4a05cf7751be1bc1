"""explain: the alternatives to a pod's wishes, and the nearest node then."""

from __future__ import annotations

import pytest

from tests.explain.explaining import explained, mig, wish
from tests.extender.preempting import share_node, whole_node
from tests.kube_objects import SHARE, Json, gpu, gpu_node, node, pod

WHOLE = "nvidia.com/gpu"
ONE_G = "nvidia.com/mig-1g.10gb"
SICK = {"state": "Unhealthy", "reason": "XID 79"}
DBE = "XID 48: double-bit ECC error; needs a GPU reset"


def selecting(asking: Json, labels: Json) -> Json:
    asking["spec"]["nodeSelector"] = labels
    return asking


@pytest.mark.parametrize(
    ("asking", "objects", "text", "advice"),
    [
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
            [gpu_node("n", [gpu(0, health=SICK | {"reason": DBE})]), node("n", {WHOLE: "0"})],
            f"n GPU 0 is unhealthy ({DBE})",
            ["Have an operator see to GPU 0 of n: it needs a GPU reset"],
            id="a sick GPU with the remedy from its agent",
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
            selecting(pod("p", {WHOLE: "1"}), {"zone": "east"}),
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
def test_a_pod_gets_the_alternatives(asking: Json, objects: list[Json], text: str, advice: list[str]) -> None:
    explanation = explained(asking, *objects)
    assert (explanation["nearest"]["text"], explanation["advice"]) == (text, advice)
