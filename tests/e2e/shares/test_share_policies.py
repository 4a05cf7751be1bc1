"""Defaults and refused fields of pods that request a share, on the real API server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.cluster.api import STRATEGIC, Json
from tests.e2e.shares.share_cluster import (
    ASSIGNED,
    DEVICES,
    NODE,
    VISIBLE,
    VOID,
    ShareCluster,
    container,
    debug,
    debugged,
    env,
    own,
    share,
    variables,
)
from tests.kube_objects import SHARE

LONGEST = "a" * 63
SIDECAR = {"restartPolicy": "Always"}


def test_every_container_that_asks_a_share_sees_its_own(shares: ShareCluster) -> None:
    made = shares.create(
        shares.pod(
            share("one", env=[{"name": "A", "value": "1"}]),
            share("two"),
            container("without"),
            container("without-too", env=[{"name": "A", "value": "1"}]),
            share(LONGEST),
            init=[share("first"), share("beside", **SIDECAR), container("first-without")],
        )
    )
    assert variables(made) == {
        "first": [own("first")],
        "beside": [own("beside")],
        "first-without": [VOID],
        "one": [{"name": "A", "value": "1"}, own("one")],
        "two": [own("two")],
        "without": [VOID],
        "without-too": [{"name": "A", "value": "1"}, VOID],
        LONGEST: [own(LONGEST)],
    }


def test_a_pod_without_a_share_is_unchanged(shares: ShareCluster) -> None:
    made = shares.create(shares.pod(container("main", {SHARE: "0"})))
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert variables(made) == {"main": None}


def test_a_pod_made_from_a_stored_one_gets_nothing_twice(shares: ShareCluster) -> None:
    made = shares.create(shares.pod(share("one"), container("two"), init=[share("first")]))
    again = shares.create({"metadata": {"name": "again"}, "spec": made["spec"]})
    assert again["spec"] == made["spec"]


SETS_VISIBLE = f"a pod that asks {SHARE} sets NVIDIA_VISIBLE_DEVICES; leave it out"
SETS_CUDA = f"a pod that asks {SHARE} sets CUDA_VISIBLE_DEVICES; leave it out"
NAMED = "by which container runtimes give devices; leave them as they are"
SECRETLY: Json = {"env": [own("main"), {"name": VISIBLE, "value": "all"}]}
OTHERS: Json = {"env": [own("other")]}

Pod = Callable[[ShareCluster], Json]


def named(key: str) -> Pod:
    """A pod with an annotation by which container runtimes give devices."""
    return lambda s: s.pod(annotations={key: "nvidia.com/gpu=all"})


# A pod and the refusal of it, for each rule, and for each place that it looks at.
REFUSED: dict[str, tuple[Pod, str]] = {
    "choose another scheduler": (
        lambda s: s.pod(schedulerName="other"),
        "is placed by gpu-scheduler, not by",
    ),
    "choose its node with a share of an init container alone": (
        lambda s: s.pod(container(), init=[share("first")], nodeName=NODE),
        "leave spec.nodeName out",
    ),
    "take another container's variable": (
        lambda s: s.pod(share(**OTHERS), share("other")),
        SETS_VISIBLE,
    ),
    "say it twice, the second time for all": (lambda s: s.pod(share(**SECRETLY)), SETS_VISIBLE),
    "ask for all in a sidecar": (
        lambda s: s.pod(init=[share("b", **SIDECAR, **env(VISIBLE))]),
        f"container b of {SETS_VISIBLE}",
    ),
    "ask for all in two of three containers": (
        lambda s: s.pod(share("a", **env(VISIBLE)), share("b"), container("c", **env(VISIBLE))),
        f"container a, c of {SETS_VISIBLE}",
    ),
    "choose devices for CUDA in a container without a share": (
        lambda s: s.pod(share(), container("b", **env("CUDA_VISIBLE_DEVICES"))),
        f"container b of {SETS_CUDA}",
    ),
    "name a device by CDI": (named("cdi.k8s.io/mine"), NAMED),
    "name a device to NVIDIA's plugin": (named("nvidia.cdi.k8s.io"), NAMED),
    "name a device of a container": (named("nvidia.cdi.k8s.io/container.main"), NAMED),
    "assign itself a GPU, even without asking a share": (
        lambda s: s.pod(container(), annotations={f"{DEVICES}main": "GPU-1"}),
        "come with the extender's Binding",
    ),
    "say that it is assigned": (lambda s: s.pod(annotations={ASSIGNED: "{}"}), "come with the extender's"),
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_a_share_pod_may_not(shares: ShareCluster, wrong: str) -> None:
    pod, said = REFUSED[wrong]
    refusal = shares.refusal(pod(shares))
    assert said in refusal
    assert refusal.startswith("403 Forbidden"), "as a quota says it: nothing of the pod is malformed"


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(lambda s: s.pod(share("main", **env("CUDA_LAUNCH_BLOCKING", "1"))), id="have variables"),
        pytest.param(lambda s: s.pod(share(env=[own("main")])), id="say what would be said for it"),
        pytest.param(
            lambda s: s.pod(annotations={"gpu.scheduler-ext.io/model": "L4"}), id="have wishes of a GPU"
        ),
        pytest.param(
            lambda s: s.pod(
                container(**env(VISIBLE)),
                annotations={"nvidia.cdi.k8s.io/pod": "management.nvidia.com/gpu=all"},
                schedulerName="other",
                nodeName=NODE,
            ),
            id="without a share, do everything else",
        ),
    ],
)
def test_a_pod_may(shares: ShareCluster, pod: Any) -> None:
    assert shares.refusal(pod(shares)) == ""


def test_a_debugging_container_of_a_share_pod_sees_no_gpu(shares: ShareCluster) -> None:
    name = shares.assigned()
    path = f"{shares.pods}/{name}"
    for number in ("one", "two"):
        debug(shares.api, path, debugged(number))
    assert variables(shares.get(name)) == {"main": [own("main")], "one": [VOID], "two": [VOID]}
    for variable, of in ((VISIBLE, "ephemeral container"), ("CUDA_VISIBLE_DEVICES", "container")):
        wrong = debugged("debug", **env(variable))
        said = shares.api.refusal("PATCH", f"{path}/ephemeralcontainers", wrong, STRATEGIC)
        assert f"{of} debug of a pod that asks {SHARE} sets {variable}; leave it out" in said


def test_a_debugging_container_of_another_pod_may_ask_for_all_gpus(shares: ShareCluster) -> None:
    name = shares.made(container())
    debug(shares.api, f"{shares.pods}/{name}", debugged("debug", **env(VISIBLE)))
    assert variables(shares.get(name))["debug"] == [{"name": VISIBLE, "value": "all"}]
