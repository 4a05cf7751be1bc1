"""The commands of docs/tasks/dra.md, on a cluster of their own."""

from __future__ import annotations

import pytest

from tests.dra_objects import DRIVER, claim_template, device_class
from tests.e2e.cluster.features import DEVICE_TAINT_RULES
from tests.e2e.documented import running_reader
from tests.e2e.dra.dra_workload import CLASSES, DraWorkload
from tests.e2e.installation import Installation
from tests.kube_objects import inventory, pod
from tests.pages import ROOT, blocks

pytestmark = pytest.mark.release

PAGE = ROOT / "docs" / "tasks" / "dra.md"


def test_the_page_on_dra(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_reader(tmp_path_factory, features=DEVICE_TAINT_RULES) as reader:
        reader.api.create(CLASSES, device_class(DRIVER))
        node = DraWorkload(Installation(reader.cluster)).add_dra("h100", 2)
        asking = pod("train", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "asked"}])
        asking["spec"]["tolerations"] = [{"operator": "Exists"}]
        manifest = reader.checkout / "pod-with-template.yaml"
        manifest.write_bytes(inventory(claim_template("asked"), asking))
        offline, overlay, health, undo = blocks(PAGE.read_text(), "sh")
        assert f"best: {node}" in reader.run_block(offline)
        reader.run_block(overlay)
        assert "managedResources:" not in Installation(reader.cluster).configuration()["kube-scheduler.yaml"]
        reader.run_block(health)
        reader.run_block("kubectl -n gpu-scheduler rollout status deployment/gpu-scheduler")
        reader.run_block(undo)
