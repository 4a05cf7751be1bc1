"""Karpenter with its kwok provider, as a process against a control plane of the tests."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

from tests.e2e.autoscaler.node_groups import Machine, NodeGroup, table
from tests.e2e.cluster import unverified
from tests.e2e.cluster.api import eventually
from tests.e2e.cluster.binaries import KARPENTER, find_karpenter, find_module
from tests.e2e.cluster.child import Child
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.ports import LOOPBACK, free_ports
from tests.manifests.objects import entries

NODE_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
NODE_POOLS = "/apis/karpenter.sh/v1/nodepools"
CONSOLIDATE_AFTER = "20s"
"""From the last pod of a node to its return."""
_DEFINITIONS = ("pkg/apis/crds", "kwok/apis/crds")
_START_S = 60.0
# From a bought machine to its Node.
_REGISTRATION = "1s"


@contextlib.contextmanager
def running_karpenter(plane: ControlPlane, machines: Sequence[Machine]) -> Iterator[Child]:
    """Karpenter, which may buy these machines as soon as there are NodePools; it is stopped at the end."""
    program = find_karpenter()
    sources = find_module(KARPENTER, "sigs.k8s.io/karpenter")
    for definitions in _DEFINITIONS:
        plane.kubectl("apply", "--server-side", "-f", sources / definitions)
    eventually(
        lambda: "kwoknodeclasses" in plane.kubectl("api-resources", "--api-group=karpenter.kwok.sh"),
        "Karpenter's objects are served",
    )
    node_class = {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": "default"},
        "spec": {"nodeRegistrationDelay": _REGISTRATION},
    }
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(node_class))
    catalogue = plane.directory / "instance-types.json"
    catalogue.write_text(json.dumps([machine.as_instance_type() for machine in machines]))
    metrics, probes = free_ports(2)
    environment = {
        "PATH": os.environ["PATH"],
        "KUBECONFIG": str(plane.kubeconfig("admin")),
        "INSTANCE_TYPES_FILE_PATH": str(catalogue),
        "FEATURE_GATES": "NodeOverlay=true",
        "DISABLE_LEADER_ELECTION": "true",
        "METRICS_PORT": str(metrics),
        "HEALTH_PROBE_PORT": str(probes),
        # Pods of one burst may become visible seconds apart here, and would be packed apart.
        "BATCH_IDLE_DURATION": "3s",
        "BATCH_MAX_DURATION": "30s",
        "LOG_LEVEL": "debug",
    }
    karpenter = Child("karpenter", [program], plane.directory / "karpenter.log", environment)
    try:
        karpenter.wait_ready(lambda: bool(unverified.get(f"http://{LOOPBACK}:{probes}/readyz")), _START_S)
        yield karpenter
    finally:
        karpenter.stop()


def allow(plane: ControlPlane, groups: Sequence[NodeGroup]) -> None:
    """Let Karpenter buy nodes in these groups, and wait until it has looked at them."""
    generated = subprocess.run(
        [sys.executable, "-m", "scheduler_ext", "autoscaler-config", "--for", "karpenter", "-f", "-"],
        input=table(groups, CONSOLIDATE_AFTER),
        capture_output=True,
        text=True,
        check=False,
    )
    assert generated.returncode == 0, generated.stderr
    plane.kubectl("apply", "-f", "-", stdin=generated.stdout)

    def evaluated() -> bool:
        pools = plane.api.items(NODE_POOLS)
        overlays = plane.api.items("/apis/karpenter.sh/v1alpha1/nodeoverlays")
        return all(
            any(c["type"] == "Ready" and c["status"] == "True" for c in entries(each, "status", "conditions"))
            for each in (*pools, *overlays)
        )

    eventually(evaluated, "NodePools and NodeOverlays are ready")
