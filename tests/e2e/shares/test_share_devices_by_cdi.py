"""Devices by the annotation of NVIDIA's NRI plugin (component shares-cdi), on the real API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.cluster.api import MERGE
from tests.e2e.shares.share_cluster import (
    ASSIGNED,
    CDI,
    DEVICES,
    SHARES,
    VOID,
    ShareCluster,
    container,
    own,
    running_share_cluster,
    share,
    variables,
)


@pytest.fixture(scope="module")
def cdi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShareCluster]:
    with running_share_cluster(tmp_path_factory.mktemp("cdi"), SHARES, CDI) as cluster:
        yield cluster


NRI = "nvidia.cdi.k8s.io/container."


def test_cdi_names_the_devices_in_the_binding(cdi: ShareCluster) -> None:
    name = cdi.made(share("one"), share("two"), container("without"))
    devices = {f"{DEVICES}one": "GPU-1", f"{DEVICES}two": "GPU-2, MIG-3", ASSIGNED: "{}"}
    cdi.extender.create(f"{cdi.pods}/{name}/binding", cdi.binding(name, devices))
    assert cdi.get(name)["metadata"]["annotations"] == devices | {
        f"{NRI}one": "nvidia.com/gpu=GPU-1",
        f"{NRI}two": "nvidia.com/gpu=GPU-2,nvidia.com/gpu=MIG-3",
    }


def test_cdi_leaves_other_bindings_alone(cdi: ShareCluster) -> None:
    name = cdi.made(container("main", {"nvidia.com/gpu": "1"}), schedulerName="gpu-scheduler")
    cdi.extender.create(f"{cdi.pods}/{name}/binding", cdi.binding(name, {ASSIGNED: "{}"}))
    assert cdi.get(name)["metadata"]["annotations"] == {ASSIGNED: "{}"}


def test_cdi_gives_no_gpu_by_the_variable(cdi: ShareCluster) -> None:
    made = cdi.create(cdi.pod(share("one"), container("two"), init=[share("first")]))
    assert variables(made) == {"first": [VOID], "one": [VOID], "two": [VOID]}


def test_cdi_refuses_what_shares_refuse(cdi: ShareCluster) -> None:
    assert "sets NVIDIA_VISIBLE_DEVICES; leave it out" in cdi.refusal(cdi.pod(share(env=[own("main")])))
    assert "by which container runtimes give devices" in cdi.refusal(
        cdi.pod(annotations={f"{NRI}main": "nvidia.com/gpu=all"})
    )


def test_cdi_keeps_its_named_devices(cdi: ShareCluster) -> None:
    name = cdi.assigned()
    cdi.api.patch(f"{cdi.pods}/{name}", {"metadata": {"labels": {"a": "b"}}})
    for value in ("nvidia.com/gpu=all", None):
        patch = {"metadata": {"annotations": {f"{NRI}main": value}}}
        refusal = cdi.api.refusal("PATCH", f"{cdi.pods}/{name}", patch, MERGE)
        assert "by which container runtimes give devices" in refusal


def test_cdi_and_the_length_of_a_containers_name(cdi: ShareCluster) -> None:
    assert cdi.refusal(cdi.pod(share("a" * 53))) == ""
    assert "more than 53 characters" in cdi.refusal(cdi.pod(share("a" * 54)))
    assert cdi.refusal(cdi.pod(share(), container("a" * 63))) == "", "only shares have the annotation"
