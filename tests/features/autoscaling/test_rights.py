"""Rights of the component `placeholders`, to the last verb."""

from __future__ import annotations

from tests.manifests.shipped import shipped
from tests.manifests.test_rights import BASE, spelled_out

RIGHTS: dict[str, set[str]] = {
    "Role gpu-scheduler-placeholders/gpu-scheduler-placeholders": {
        "batch jobs: create delete list",
        " configmaps (gpu-placeholder-budget): get patch",
    },
}


def test_the_rights() -> None:
    assert spelled_out(shipped("placeholders")) == BASE | RIGHTS
