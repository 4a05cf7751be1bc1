"""Rights of the component `idle-reclaim`, to the last verb."""

from __future__ import annotations

from tests.manifests.shipped import shipped
from tests.manifests.test_rights import BASE, EXTENDER, FOLLOWING, SCHEDULER, granted, spelled_out

RIGHTS: dict[str, set[str]] = {
    "ClusterRole gpu-scheduler-idle-reclaim": {
        " namespaces: list",
        " pods: get patch",
        " pods/eviction: create",
    },
    "Role gpu-scheduler/gpu-scheduler-idle-reclaim": {
        "coordination.k8s.io leases (gpu-scheduler-reclaim): get update",
    },
}


def test_the_rights() -> None:
    assert spelled_out(shipped("idle-reclaim")) == BASE | RIGHTS


def test_the_extender_has_nothing_of_kube_schedulers() -> None:
    objects = shipped("idle-reclaim")
    assert granted(objects, "gpu-scheduler-extender") == EXTENDER | {FOLLOWING, *RIGHTS}
    assert granted(objects, "gpu-scheduler") == SCHEDULER
