"""Rights of each role of the kernel, to the last verb: every one is listed here. Features test theirs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.manifests.objects import Json, entries, namespace_of, of_kind
from tests.manifests.shipped import base, shipped, standalone

# Role to "group resource/subresource (names): verbs". The core group has no name.
BASE = {
    "ClusterRole gpu-scheduler-agent": {
        " nodes: get",
        "gpu.scheduler-ext.io gpunodes: create get patch",
        "gpu.scheduler-ext.io gpunodes/status: patch",
    },
    "ClusterRole gpu-scheduler-events": {"events.k8s.io events: create"},
    "ClusterRole gpu-scheduler-extender": {
        " nodes: list watch",
        " pods: list watch",
        "gpu.scheduler-ext.io gpunodes: list watch",
        "policy poddisruptionbudgets: list watch",
        "resource.k8s.io deviceclasses: list watch",
        "resource.k8s.io resourceslices: list watch",
        "resource.k8s.io resourceclaims: list watch",
        "resource.k8s.io devicetaintrules: list watch",
    },
    "ClusterRole gpu-scheduler-nudge": {" nodes: patch"},
    "ClusterRole gpu-scheduler-planner": {" pods/status: patch"},
    "ClusterRole gpunodes-view": {"gpu.scheduler-ext.io gpunodes: get list watch"},
    "Role gpu-scheduler/gpu-scheduler-lease": {
        "coordination.k8s.io leases: create",
        "coordination.k8s.io leases (gpu-scheduler): get update",
    },
    "Role gpu-scheduler/gpu-scheduler-lease-reader": {
        "coordination.k8s.io leases (gpu-scheduler): get list watch",
    },
}
FOLLOWING = "Role gpu-scheduler/gpu-scheduler-lease-reader"
# By component.
ADDED: dict[str, dict[str, set[str]]] = {
    "shares": {
        "ClusterRole gpu-scheduler-shares": {
            " pods: get",
            " pods/binding: create",
            " nodes/status: patch",
            "gpu.scheduler-ext.io gpureservations: create get list update watch",
        },
        "ClusterRole gpureservations-view": {"gpu.scheduler-ext.io gpureservations: get list watch"},
    },
}
STANDALONE = {
    "Role gpu-scheduler/gpu-scheduler-extender-lease": {
        "coordination.k8s.io leases (gpu-scheduler-extender): get update",
    },
}


def spelled_out(objects: Sequence[Json]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for role in of_kind(objects, "Role", "ClusterRole"):
        place = f"{namespace_of(role)}/" if role["kind"] == "Role" else ""
        lines = found.setdefault(f"{role['kind']} {place}{role['metadata']['name']}", set())
        lines.update(line for rule in entries(role, "rules") for line in _lines(rule))
    return found


def _lines(rule: Json) -> Iterator[str]:
    names = "".join(f" ({name})" for name in entries(rule, "resourceNames"))
    verbs = " ".join(sorted(entries(rule, "verbs")))
    for group in entries(rule, "apiGroups") or ["(none)"]:
        for resource in entries(rule, "resources") or entries(rule, "nonResourceURLs"):
            yield f"{group} {resource}{names}: {verbs}"


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(base(), BASE, id="of the base"),
        *(pytest.param(shipped(name), BASE | added, id=f"with {name}") for name, added in ADDED.items()),
        pytest.param(
            standalone(),
            {role: lines for role, lines in BASE.items() if role != FOLLOWING} | STANDALONE,
            id="of the extender by itself",
        ),
    ],
)
def test_the_rights(objects: list[Json], expected: dict[str, set[str]]) -> None:
    assert spelled_out(objects) == expected


EXTENDER = {
    "ClusterRole gpu-scheduler-events",
    "ClusterRole gpu-scheduler-extender",
    "ClusterRole gpu-scheduler-nudge",
    "ClusterRole gpu-scheduler-planner",
}
SCHEDULER = {
    "ClusterRole system:kube-scheduler",
    "ClusterRole system:volume-scheduler",
    "Role kube-system/extension-apiserver-authentication-reader",
    "Role gpu-scheduler/gpu-scheduler-lease",
}


def granted(objects: Sequence[Json], account: str) -> set[str]:
    """The roles that are bound to a ServiceAccount of the namespace gpu-scheduler."""
    found = set()
    for binding in of_kind(objects, "RoleBinding", "ClusterRoleBinding"):
        subjects = [(each["namespace"], each["name"]) for each in entries(binding, "subjects")]
        if ("gpu-scheduler", account) in subjects:
            role = binding["roleRef"]
            place = f"{namespace_of(binding)}/" if role["kind"] == "Role" else ""
            found.add(f"{role['kind']} {place}{role['name']}")
    return found


@pytest.mark.parametrize(
    ("objects", "further"),
    [
        pytest.param(base(), {FOLLOWING}, id="in the base"),
        pytest.param(shipped("shares"), {FOLLOWING, "ClusterRole gpu-scheduler-shares"}, id="with shares"),
        pytest.param(standalone(), set(STANDALONE), id="by itself"),
    ],
)
def test_the_extender_has_nothing_of_kube_schedulers(objects: list[Json], further: set[str]) -> None:
    assert granted(objects, "gpu-scheduler-extender") == EXTENDER | further
    assert granted(objects, "gpu-scheduler") == SCHEDULER
