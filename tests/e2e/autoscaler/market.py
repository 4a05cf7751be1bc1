"""A cluster with the product and Karpenter, and nodes on sale that come to life when they are bought.

Karpenter's kwok provider creates Nodes that nothing runs on. Here each becomes what a GPU node of a cloud
becomes: a kubelet without GPUs, and some seconds later the device plugin, GPU Feature Discovery and the
agent's report. The extender does the rest.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from tests.e2e.agents.gpunode_api import write_report
from tests.e2e.autoscaler.node_groups import NODE_POOL, Machine, NodeGroup, table
from tests.e2e.cluster import unverified
from tests.e2e.cluster.api import ApiError, Json, eventually
from tests.e2e.cluster.binaries import KARPENTER, find_karpenter, find_module
from tests.e2e.cluster.child import Child
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.ports import LOOPBACK, free_ports
from tests.e2e.installation import Installation
from tests.e2e.kustomization import write_kustomization
from tests.e2e.shares.share_workload import ShareWorkload, running_share_installation
from tests.kube_objects import gpu_node
from tests.manifests.objects import entries

log = logging.getLogger(__name__)

_NODES = "/api/v1/nodes"
# Most of it is the start of a node, on a machine that runs other tests as well.
_RUNNING_S = 120.0
_PAUSE_S = 0.5
NODE_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
NODE_POOLS = "/apis/karpenter.sh/v1/nodepools"
CONSOLIDATE_AFTER = "20s"
"""From the last pod of a node to its return."""
_DEFINITIONS = ("pkg/apis/crds", "kwok/apis/crds")
_START_S = 60.0
# From a bought machine to its Node.
_REGISTRATION = "1s"


class Market(threading.Thread):
    """Use `open_market`. `groups` are those in which Karpenter may buy. `plugin_s` passes from a new Node to
    its device plugin and its agent's report; on clouds, half a minute to some minutes.
    """

    def __init__(self, installation: Installation, groups: Mapping[str, NodeGroup]) -> None:
        super().__init__(daemon=True)
        self.installation = installation
        self.api = installation.api
        self.groups = groups
        self.plugin_s = 4.0
        self.stopping = threading.Event()
        self._reports: dict[str, Json] = {}

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                for kind, node in self.api.watch(_NODES, self.stopping.is_set):
                    name = node["metadata"]["name"]
                    bought = "kwok" in node["spec"].get("providerID", "")
                    if kind != "DELETED" and bought and name not in self._reports:
                        self._boot(node)
            except (ApiError, ConnectionError):
                log.exception("the market opens again")
                self.stopping.wait(_PAUSE_S)

    def _boot(self, node: Json) -> None:
        """Its kubelet registers, and knows of no GPUs: the provider's Node has them from the first moment."""
        name = node["metadata"]["name"]
        group = self.groups[node["metadata"]["labels"][NODE_POOL]]
        extended = {
            resource: None
            for kind in ("capacity", "allocatable")
            for resource in node["status"].get(kind, {})
            if resource not in group.machine.room
        }
        status = {"capacity": {**group.machine.room, **extended}, "allocatable": extended}
        with _gone_is_fine():
            self.api.patch(f"{_NODES}/{name}/status", {"status": status})
        devices = group.devices(name)
        strategy = {} if "mig" not in devices[0] else {"migStrategy": "mixed"}
        self._reports[name] = gpu_node(name, devices, **strategy)
        threading.Timer(self.plugin_s, self._plug_in, (name, group)).start()

    def _plug_in(self, name: str, group: NodeGroup) -> None:
        """The agent, the device plugin and GPU Feature Discovery."""
        with _gone_is_fine():
            write_report(self.api, self._reports[name])
            self.api.patch(f"{_NODES}/{name}", {"metadata": {"labels": group.discovered_labels}})
            if group.plugin_resources:
                self.api.patch(f"{_NODES}/{name}/status", {"status": {"capacity": group.plugin_resources}})

    def change(self, node: str, index: int, **fields: object) -> None:
        """Report other values of one GPU, such as its health."""
        self._reports[node]["status"]["devices"][index] |= fields
        write_report(self.api, self._reports[node])

    def run_all(self, workload: ShareWorkload, pods: Sequence[Json]) -> list[str]:
        """Create the pods, and wait until all run; their names."""
        names = workload.create_all(pods)
        eventually(lambda: self.waiting(workload, names) == [], f"all pods run: {names}", _RUNNING_S)
        return names

    def claims(self) -> dict[str, str]:
        """The group of each node that Karpenter has bought and not returned, by its claim."""
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


@contextlib.contextmanager
def _gone_is_fine() -> Iterator[None]:
    """The node may be gone, or changed since it was read."""
    try:
        yield
    except ApiError as error:
        if error.status not in (404, 409, 422):
            raise


def overlay(directory: Path, *, placeholders: bool = False) -> Path:
    """A kustomization of memory shares, written there, with or without placeholders. The agents' pods run no
    agent, because the tests write the reports, once; Karpenter counts what they request.
    """
    image = {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "no-agent:1"}
    return write_kustomization(
        directory,
        "overlays/shares",
        ["placeholders"] if placeholders else [],
        extender={
            "bind": {"enabled": True},
            "autoscaler": {"placeholders": {"enabled": placeholders, "after": "0s"}},
            "inventory": {"staleAfter": "12h", "missingAfter": "24h"},
        },
        patches=[{"target": {"kind": "DaemonSet"}, "patch": yaml.safe_dump([image])}],
    )


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


@contextlib.contextmanager
def open_market(directory: Path, groups: Mapping[str, NodeGroup]) -> Iterator[Market]:
    """A cluster of its own with these node groups and no nodes in them."""
    machines = {group.machine.name: group.machine for group in groups.values()}
    with (
        running_share_installation(directory, overlay(directory / "overlay")) as installation,
        running_karpenter(installation.plane, list(machines.values())),
    ):
        market = Market(installation, groups)
        market.start()
        allow(installation.plane, list(groups.values()))
        yield market
        market.stopping.set()
        market.join()
