"""A cluster with the product and Karpenter, and nodes on sale that come to life when they are bought."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from tests.e2e.autoscaler.bought_nodes import BoughtNodes, running_bought_nodes
from tests.e2e.autoscaler.karpenter import NODE_CLAIMS, allow, running_karpenter
from tests.e2e.autoscaler.node_groups import NODE_POOL, NodeGroup
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.installation import Installation
from tests.e2e.kustomization import write_kustomization
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
    ) -> None:
        self.installation = installation
        self.api = installation.api
        self.groups = groups
        self.nodes = nodes

    def run(self, workload: ShareWorkload, pods: Sequence[Json]) -> list[str]:
        """Create the pods, and wait until all run; their names."""
        names = workload.create_all(pods)
        eventually(lambda: self.waiting(workload, names) == [], f"all pods run: {names}", _RUNNING_S)
        return names

    def claims(self) -> dict[str, str]:
        """The group of each node that Karpenter has bought and not returned."""
        claims = self.api.items(NODE_CLAIMS)
        return {each["metadata"]["name"]: each["metadata"]["labels"][NODE_POOL] for each in claims}

    def bought(self, before: Collection[str] = ()) -> Counter[str]:
        """The nodes that were bought beside those before, by group."""
        return Counter(group for name, group in self.claims().items() if name not in before)

    def waiting(self, workload: ShareWorkload, names: Sequence[str]) -> list[str]:
        """Those of the pods that do not run."""
        phases = {pod["metadata"]["name"]: pod["status"].get("phase") for pod in workload.all_pods()}
        return [name for name in names if phases.get(name) != "Running"]

    def clear(self, before: Collection[str] = ()) -> None:
        """Return the nodes that were bought beside those before; their pods must be gone."""
        names = self.claims().keys() - set(before)
        for name in names:
            self.api.delete(f"{NODE_CLAIMS}/{name}")
        eventually(lambda: not names & self.claims().keys(), "Karpenter has returned the nodes", _RUNNING_S)


def overlay(directory: Path, *, placeholders: bool = False) -> Path:
    """A kustomization of memory shares, written there, with or without placeholders. The agents' pods run no
    agent, because the tests write the reports; Karpenter counts what they request.
    """
    image = {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "no-agent:1"}
    return write_kustomization(
        directory,
        "overlays/shares",
        ["placeholders"] if placeholders else [],
        extender={
            "bind": {"enabled": True},
            "autoscaler": {"placeholders": {"enabled": placeholders, "after": "0s"}},
        },
        patches=[{"target": {"kind": "DaemonSet"}, "patch": yaml.safe_dump([image])}],
    )


@contextlib.contextmanager
def open_market(directory: Path, groups: Mapping[str, NodeGroup]) -> Iterator[Market]:
    """A cluster of its own with these node groups and no nodes in them."""
    machines = {group.machine.name: group.machine for group in groups.values()}
    with running_share_installation(directory, overlay(directory / "overlay")) as installation:
        api = installation.api
        with (
            running_karpenter(installation.plane, list(machines.values())),
            running_bought_nodes(api, groups) as nodes,
        ):
            allow(installation.plane, list(groups.values()))
            yield Market(installation, groups, nodes)
