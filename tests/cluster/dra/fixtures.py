"""A followed cluster that serves Dynamic Resource Allocation."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cluster.api.api_handler import Answer
from tests.cluster.api.api_requests import Request
from tests.cluster.living import Living
from tests.dra_objects import resource_list

ROOT = "/apis/resource.k8s.io"
CLASSES, SLICES, CLAIMS, RULES = (
    f"{ROOT}/v1/{name}" for name in ("deviceclasses", "resourceslices", "resourceclaims", "devicetaintrules")
)
SERVED = {"v1": ("deviceclasses", "resourceslices", "resourceclaims", "devicetaintrules")}
Serve = Callable[..., None]


@pytest.fixture
def serve(living: Living) -> Serve:
    """Lets the API server of `living` serve these resources, by version; none for a version not named."""

    def serve(**versions: tuple[str, ...]) -> None:
        def hook(request: Request) -> Answer | None:
            version = request.path.removeprefix(f"{ROOT}/")
            if versions and request.path == ROOT:
                group = {"kind": "APIGroup", "versions": [{"version": each} for each in versions]}
                return Answer(200, json.dumps(group).encode())
            if version in versions:
                return Answer(200, json.dumps(resource_list(*versions[version])).encode())
            return None

        living.server.hook = hook

    return serve
