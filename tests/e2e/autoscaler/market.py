"""A cluster with the product and Karpenter, and nodes on sale that come to life when they are bought."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from tests.e2e.autoscaler.bought_nodes import BoughtNodes, running_bought_nodes
from tests.e2e.autoscaler.karpenter import NODE_CLAIMS, allow, running_karpenter
from tests.e2e.autoscaler.node_groups import NodeGroup
from tests.e2e.autoscaler.purchases import Purchases, watched_purchases
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.installation import MANIFESTS, Installation
from tests.e2e.shares.share_workload import ShareWorkload, running_share_installation

# Most of it is the start of a node, on a machine that runs other tests as well.
_RUNNING_S = 120.0


class Market:
    """`groups` are those in which Karpenter may buy."""

    def __init__(
        self,
        installation: Installation,
        groups: Mapping[str, NodeGroup],
        nodes: BoughtNodes,
        purchases: Purchases,
    ) -> None:
        self.installation = installation
        self.api = installation.api
        self.groups = groups
        self.nodes = nodes
        self.purchases = purchases

    def run(self, workload: ShareWorkload, pods: Sequence[Json]) -> list[str]:
        """Create the pods, and wait until all run; their names."""
        names = workload.create_all(pods)
        eventually(lambda: self.waiting(workload, names) == [], f"all pods run: {names}", _RUNNING_S)
        return names

    def bought(self, since: float) -> Counter[str]:
        """The nodes that were bought from a moment on, by group."""
        return Counter(purchase.group for purchase in self.purchases.since(since))

    def waiting(self, workload: ShareWorkload, names: Sequence[str]) -> list[str]:
        """Those of the pods that do not run."""
        phases = {pod["metadata"]["name"]: pod["status"].get("phase") for pod in workload.all_pods()}
        return [name for name in names if phases.get(name) != "Running"]

    def clear(self, since: float = 0.0) -> None:
        """Return the nodes that were bought from a moment on; their pods must be gone."""
        names = {purchase.name for purchase in self.purchases.since(since)}
        for name in names:
            self.api.delete(f"{NODE_CLAIMS}/{name}")

        def gone() -> bool:
            return not names & {claim["metadata"]["name"] for claim in self.api.items(NODE_CLAIMS)}

        eventually(gone, "Karpenter has returned the nodes", _RUNNING_S)


def overlay(directory: Path, *, placeholders: bool = False) -> Path:
    """A kustomization of memory shares, written there, with or without placeholders. The agents' pods run no
    agent, because the tests write the reports; Karpenter counts what they request.
    """
    directory.mkdir()
    parts = ("overlays/shares", *(["components/placeholders"] if placeholders else []))
    shares, *components = (os.path.relpath(MANIFESTS / part, directory.resolve()) for part in parts)
    image = {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "no-agent:1"}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [shares],
        "components": components,
        "patches": [{"target": {"kind": "DaemonSet"}, "patch": yaml.safe_dump([image])}],
        "configMapGenerator": [
            {
                "name": "gpu-scheduler-config",
                "namespace": "gpu-scheduler",
                "behavior": "merge",
                "files": ["extender.yaml"],
            }
        ],
    }
    extender = {
        "apiVersion": "config.scheduler-ext.io/v1alpha1",
        "kind": "ExtenderConfiguration",
        "bind": {"enabled": True},
        "autoscaler": {"placeholders": {"enabled": placeholders, "after": "0s"}},
    }
    for name, content in (("kustomization", kustomization), ("extender", extender)):
        (directory / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return directory


@contextlib.contextmanager
def open_market(directory: Path, groups: Mapping[str, NodeGroup]) -> Iterator[Market]:
    """A cluster of its own with these node groups and no nodes in them."""
    machines = {group.machine.name: group.machine for group in groups.values()}
    with running_share_installation(directory, overlay(directory / "overlay")) as installation:
        api = installation.api
        with (
            running_karpenter(installation.plane, list(machines.values())),
            running_bought_nodes(api, groups) as nodes,
            watched_purchases(api, NODE_CLAIMS) as purchases,
        ):
            allow(installation.plane, list(groups.values()))
            yield Market(installation, groups, nodes, purchases)
