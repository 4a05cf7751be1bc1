"""Files of manifests/ that repeat another file's content differ from it in nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from scheduler_ext import __version__
from tests.e2e.cluster.binaries import SHIPPED_MINOR, kubernetes_version
from tests.manifests.objects import containers, of_kind
from tests.manifests.shipped import COMPONENTS, CONFIG, REPOSITORY, documents, standalone
from tests.pages import SAMPLE

KWOK = COMPONENTS / "kwok-demo"


def scheduler_configuration(folder: Path) -> Any:
    return yaml.safe_load((folder / "kube-scheduler.yaml").read_bytes())


def test_the_configuration_of_mtls_differs_in_the_way_to_the_extender_only() -> None:
    plain, mtls = scheduler_configuration(CONFIG), scheduler_configuration(COMPONENTS / "standalone-mtls")
    way = {key: mtls["extenders"][0].pop(key) for key in ("urlPrefix", "enableHTTPS", "tlsConfig")}
    assert plain["extenders"][0].pop("urlPrefix") == "http://127.0.0.1:8888"
    assert mtls == plain
    host = "gpu-scheduler-extender.gpu-scheduler.svc"
    assert way["urlPrefix"] == f"https://{host}:8888"
    assert way["tlsConfig"].pop("serverName") == host
    assert way["tlsConfig"].keys() == {"caFile", "certFile", "keyFile"}


def test_the_documented_profile_is_the_shipped_one() -> None:
    page = (REPOSITORY / "docs" / "tasks" / "install.md").read_text()
    (block,) = re.findall(r"```yaml\n(apiVersion: kubescheduler.*?)```", page, re.DOTALL)
    documented, shipped = yaml.safe_load(block), scheduler_configuration(CONFIG)
    assert documented == {key: shipped[key] for key in ("apiVersion", "kind", "profiles")}


def test_the_configuration_of_shares_differs_in_who_binds_only() -> None:
    plain, shares = scheduler_configuration(CONFIG), scheduler_configuration(COMPONENTS / "shares")
    assert shares["extenders"][0].pop("bindVerb") == "bind"
    assert shares == plain


def test_the_configuration_of_claims_differs_in_what_is_sent_only() -> None:
    plain, claims = scheduler_configuration(CONFIG), scheduler_configuration(COMPONENTS / "dra")
    del plain["extenders"][0]["managedResources"]
    assert claims == plain


def test_shares_change_of_the_extenders_configuration_that_it_binds() -> None:
    assert yaml.safe_load((COMPONENTS / "shares" / "extender.yaml").read_bytes()) == {
        "apiVersion": "config.scheduler-ext.io/v1alpha1",
        "kind": "ExtenderConfiguration",
        "bind": {"enabled": True},
    }


def test_the_demo_cluster_is_that_of_the_sample_inventory() -> None:
    def summary(node: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
        labels = {key: value for key, value in node["metadata"].get("labels", {}).items() if key != "type"}
        return labels, node["status"]["allocatable"]

    sample = list(yaml.safe_load_all(SAMPLE.read_bytes()))
    nodes, demo = of_kind(sample, "Node"), of_kind(documents(KWOK), "Node")
    assert {each["metadata"]["name"]: summary(each) for each in demo} == {
        each["metadata"]["name"]: summary(each) for each in nodes
    }
    reported = list(yaml.safe_load_all((KWOK / "gpunodes.yaml").read_bytes()))
    assert reported == of_kind(sample, "GPUNode")


def test_the_images_are_those_of_the_tests() -> None:
    images = {each["image"] for _, each in containers(standalone())}
    built = kubernetes_version(SHIPPED_MINOR)
    assert images == {f"scheduler-ext:{__version__}", f"registry.k8s.io/kube-scheduler:{built}"}
