"""What pods that ask a share are given, and what they may not say, on the real API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.cluster.api import STRATEGIC, Json, eventually
from tests.e2e.share_cluster import (
    ASSIGNED,
    DEVICES,
    VISIBLE,
    VOID,
    ShareCluster,
    container,
    debug,
    debugged,
    own,
    refused,
    share,
    variables,
)
from tests.kube_objects import SHARE

POLICIES = "/apis/admissionregistration.k8s.io/v1"
LONGEST = "a" * 63
SIDECAR = {"restartPolicy": "Always"}


# What share pods are given


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


def test_a_share_of_an_init_container_alone_counts(shares: ShareCluster) -> None:
    made = shares.create(shares.pod(container("main"), init=[share("first")]))
    assert variables(made) == {"first": [own("first")], "main": [VOID]}


def test_a_share_pod_that_names_no_scheduler_gets_ours(shares: ShareCluster) -> None:
    assert shares.create(shares.pod())["spec"]["schedulerName"] == "gpu-scheduler"


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({}, id="asks nothing"),
        pytest.param({SHARE: "0"}, id="asks a share of nothing"),
        pytest.param({"nvidia.com/gpu": "1"}, id="asks a whole GPU"),
    ],
)
def test_a_pod_is_left_as_it_is_that(shares: ShareCluster, limits: Json) -> None:
    made = shares.create(shares.pod(container("main", limits)))
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert variables(made) == {"main": None}


def test_a_stored_pod_changes_no_more(shares: ShareCluster) -> None:
    made = shares.create(shares.pod(share("one"), container("two"), init=[share("first")]))
    path = f"{shares.pods}/{made['metadata']['name']}"
    shares.api.request("PUT", path, made)
    shares.api.patch(path, {"metadata": {"labels": {"a": "b"}}})
    assert shares.get(made["metadata"]["name"])["spec"] == made["spec"]


def test_a_pod_made_from_a_stored_one_gets_nothing_twice(shares: ShareCluster) -> None:
    made = shares.create(shares.pod(share("one"), container("two"), init=[share("first")]))
    again = shares.create({"metadata": {"name": "again"}, "spec": made["spec"]})
    assert again["spec"] == made["spec"]


@pytest.fixture
def injector(shares: ShareCluster) -> Iterator[None]:
    """Something that brings a container of its own after our policy has run, as service meshes do."""
    name = "zz-injector"
    add = (
        "object.spec.containers.exists(c, c.name == 'injected') || !has(object.metadata.labels) ? [] :"
        " [JSONPatch{op: 'add', path: '/spec/containers/-',"
        " value: Object.spec.containers{name: 'injected', image: 'mesh:1'}}]"
    )
    spec = {
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ]
        },
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": add}}],
    }
    paths = [f"{POLICIES}/mutatingadmissionpolicies", f"{POLICIES}/mutatingadmissionpolicybindings"]
    for path, fields in zip(paths, (spec, {"policyName": name}), strict=True):
        shares.api.create(path, {"metadata": {"name": name}, "spec": fields})
    plain = shares.pod(container())
    plain["metadata"]["labels"] = {"mesh": "yes"}

    def injects() -> bool:
        dry = shares.api.create(f"{shares.pods}?dryRun=All", plain)
        return "injected" in variables(dry)

    eventually(injects, "containers are injected")
    yield
    for path in paths:
        shares.api.delete(f"{path}/{name}")
    eventually(lambda: not injects(), "no more containers are injected")


@pytest.mark.usefixtures("injector")
def test_a_container_that_comes_later_sees_no_gpu_either(shares: ShareCluster) -> None:
    pod = shares.pod()
    pod["metadata"]["labels"] = {"mesh": "yes"}
    assert variables(shares.create(pod)) == {"main": [own("main")], "injected": [VOID]}


# What share pods may not say


def env(name: str, value: str = "all") -> dict[str, Any]:
    return {"env": [{"name": name, "value": value}]}


OTHERS: Json = {"env": [own("other")]}
SECRETLY: Json = {"env": [own("main"), {"name": VISIBLE, "value": "all"}]}
SETS_VISIBLE = "sets NVIDIA_VISIBLE_DEVICES; leave it out"
SETS_CUDA = "sets CUDA_VISIBLE_DEVICES; leave it out"
NAMED = "by which container runtimes give devices; leave them as they are"

REFUSED = [
    (
        "choose another scheduler",
        lambda s: s.pod(schedulerName="other"),
        "is placed by gpu-scheduler, not by",
    ),
    ("ask for all GPUs", lambda s: s.pod(share("main", **env(VISIBLE))), SETS_VISIBLE),
    ("ask for one by its number", lambda s: s.pod(share("main", **env(VISIBLE, "0"))), SETS_VISIBLE),
    ("take another container's variable", lambda s: s.pod(share(**OTHERS), share("other")), SETS_VISIBLE),
    ("say it twice, the second time for all", lambda s: s.pod(share(**SECRETLY)), SETS_VISIBLE),
    (
        "ask for all in a container without a share",
        lambda s: s.pod(share(), container("b", **env(VISIBLE))),
        SETS_VISIBLE,
    ),
    (
        "ask for all in an init container",
        lambda s: s.pod(init=[container("b", **env(VISIBLE))]),
        SETS_VISIBLE,
    ),
    (
        "ask for all in a sidecar",
        lambda s: s.pod(init=[share("b", **SIDECAR, **env(VISIBLE))]),
        SETS_VISIBLE,
    ),
    (
        "choose devices for CUDA",
        lambda s: s.pod(share("main", **env("CUDA_VISIBLE_DEVICES", "1"))),
        SETS_CUDA,
    ),
    (
        "choose devices for CUDA in a container without a share",
        lambda s: s.pod(share(), container("b", **env("CUDA_VISIBLE_DEVICES"))),
        SETS_CUDA,
    ),
    (
        "name a device to the runtime",
        lambda s: s.pod(annotations={"cdi.k8s.io/mine": "nvidia.com/gpu=all"}),
        NAMED,
    ),
    (
        "name a device to NVIDIA's plugin, for all its containers",
        lambda s: s.pod(annotations={"nvidia.cdi.k8s.io": "nvidia.com/gpu=all"}),
        NAMED,
    ),
    (
        "name a device to NVIDIA's plugin, for one container",
        lambda s: s.pod(annotations={"nvidia.cdi.k8s.io/container.main": "nvidia.com/gpu=all"}),
        NAMED,
    ),
    (
        "assign itself a GPU",
        lambda s: s.pod(annotations={f"{DEVICES}main": "GPU-1"}),
        "come with the extender's Binding",
    ),
    ("say that it is assigned", lambda s: s.pod(annotations={ASSIGNED: "{}"}), "come with the extender's"),
    (
        "say so without asking a share",
        lambda s: s.pod(container(), annotations={f"{DEVICES}main": "GPU-1"}),
        "come with the extender's Binding",
    ),
]


@pytest.mark.parametrize(("pod", "said"), [pytest.param(pod, said, id=name) for name, pod, said in REFUSED])
def test_a_share_pod_may_not(shares: ShareCluster, pod: Any, said: str) -> None:
    refusal = shares.refusal(pod(shares))
    assert said in refusal
    assert refusal.startswith("403 Forbidden"), "as a quota says it: nothing of the pod is malformed"


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(lambda s: s.pod(schedulerName="gpu-scheduler"), id="name our scheduler"),
        pytest.param(lambda s: s.pod(share("main", **env("CUDA_LAUNCH_BLOCKING", "1"))), id="have variables"),
        pytest.param(lambda s: s.pod(share(env=[own("main")])), id="say what would be said for it"),
        pytest.param(lambda s: s.pod(annotations={"team": "a"}), id="have annotations"),
        pytest.param(
            lambda s: s.pod(annotations={"gpu.scheduler-ext.io/model": "L4"}), id="have wishes of a GPU"
        ),
        pytest.param(lambda s: s.pod(share(envFrom=[{"configMapRef": {"name": "c"}}])), id="have envFrom"),
    ],
)
def test_a_share_pod_may(shares: ShareCluster, pod: Any) -> None:
    assert shares.refusal(pod(shares)) == ""


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(lambda s: s.pod(container(), schedulerName="other"), id="choose another scheduler"),
        pytest.param(lambda s: s.pod(container(**env(VISIBLE))), id="set the variable"),
        pytest.param(lambda s: s.pod(container(**env("CUDA_VISIBLE_DEVICES"))), id="choose devices for CUDA"),
        pytest.param(
            lambda s: s.pod(
                container(), annotations={"nvidia.cdi.k8s.io/pod": "management.nvidia.com/gpu=all"}
            ),
            id="name a device to NVIDIA's plugin",
        ),
    ],
)
def test_a_pod_without_a_share_may(shares: ShareCluster, pod: Any) -> None:
    assert shares.refusal(pod(shares)) == ""


def test_what_debugs_a_share_pod_sees_no_gpu(shares: ShareCluster) -> None:
    name = shares.assigned()
    for number in ("one", "two"):
        debug(shares.api, f"{shares.pods}/{name}", debugged(number))
    assert variables(shares.get(name)) == {"main": [own("main")], "one": [VOID], "two": [VOID]}


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        pytest.param(VISIBLE, "sets NVIDIA_VISIBLE_DEVICES; leave it out", id="ask for all GPUs"),
        pytest.param("CUDA_VISIBLE_DEVICES", SETS_CUDA, id="choose devices for CUDA"),
    ],
)
def test_what_debugs_a_share_pod_may_not(shares: ShareCluster, variable: str, said: str) -> None:
    name = shares.assigned()
    path = f"{shares.pods}/{name}/ephemeralcontainers"
    wrong = debugged("debug", **env(variable))
    assert said in refused(shares.api, "PATCH", path, wrong, STRATEGIC)


def test_what_debugs_another_pod_may_ask_for_all(shares: ShareCluster) -> None:
    name = shares.made(container())
    debug(shares.api, f"{shares.pods}/{name}", debugged("debug", **env(VISIBLE)))
    assert variables(shares.get(name))["debug"] == [{"name": VISIBLE, "value": "all"}]
