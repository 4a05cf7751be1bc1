"""Namespaces limit the GPU memory of their pods by Kubernetes' own means, as in the samples."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
import yaml

from tests.e2e.cluster.api import Json, eventually
from tests.e2e.installation import MANIFESTS
from tests.e2e.shares.share_cluster import VOID, ShareCluster, container, own, share, variables
from tests.kube_objects import SHARE

SAMPLES = MANIFESTS / "samples"
REQUESTS = f"requests.{SHARE}"


@pytest.fixture
def namespace(shares: ShareCluster) -> Iterator[str]:
    """A namespace of its own."""
    name = f"team-{uuid.uuid4().hex[:8]}"
    shares.api.create_namespace(name)
    path = f"/api/v1/namespaces/{name}"
    yield path
    shares.api.delete(path)


def sample(name: str) -> Json:
    found: Json = yaml.safe_load((SAMPLES / f"{name}.yaml").read_bytes())
    return found


def test_the_quota_refuses_the_pod_that_exceeds_it(shares: ShareCluster, namespace: str) -> None:
    shares.api.create(f"{namespace}/resourcequotas", sample("quota"))
    quota = f"{namespace}/resourcequotas/gpu-memory"
    dry = f"{namespace}/pods?dryRun=All"
    too_much = shares.pod(share("a", "49152"), share("b", "49152"))
    # Its status does not tell: pods that admission lets pass before it knows it are counted much later.
    eventually(lambda: "exceeded quota" in shares.api.refusal("POST", dry, too_much), "the quota is in force")
    for _ in range(2):
        shares.api.create(f"{namespace}/pods", shares.pod(share("a", "20480"), share("b", "16384")))
    used = {REQUESTS: "73728"}
    eventually(
        lambda: shares.api.get(quota)["status"]["used"] == used, "both count with all their containers"
    )
    said = shares.api.refusal("POST", dry, shares.pod(share(mib="8193")))
    assert said.startswith("403 Forbidden")
    assert "exceeded quota: gpu-memory" in said
    assert f"limited: {REQUESTS}=81920" in said
    assert shares.api.refusal("POST", dry, shares.pod(share(mib="8192"))) == "", "the last MiB may be asked"


def test_pods_without_a_share_get_none_by_the_limit_range(shares: ShareCluster, namespace: str) -> None:
    shares.api.create(f"{namespace}/limitranges", sample("limit-range"))
    dry, too_much = f"{namespace}/pods?dryRun=All", shares.pod(share(mib="40961"))
    eventually(lambda: shares.api.refusal("POST", dry, too_much), "the LimitRange is in force")
    made = shares.api.create(dry, shares.pod(container()))
    assert made["spec"]["containers"][0]["resources"]["limits"] == {SHARE: "0"}
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert variables(made) == {"main": None}


def test_a_share_that_a_limit_range_gives_is_a_share(shares: ShareCluster, namespace: str) -> None:
    """Without the sample's default, the max is the default."""
    careless = sample("limit-range")
    for key in ("default", "defaultRequest"):
        del careless["spec"]["limits"][0][key]
    shares.api.create(f"{namespace}/limitranges", careless)

    def given() -> Json | None:
        made = shares.api.create(
            f"{namespace}/pods?dryRun=All", shares.pod(container(), container("other", {SHARE: "0"}))
        )
        return made if made["spec"]["containers"][0]["resources"].get("limits") else None

    made = eventually(given, "the LimitRange is in force")
    assert made["spec"]["schedulerName"] == "gpu-scheduler"
    assert variables(made) == {"main": [own("main")], "other": [VOID]}
