"""The nodes that an autoscaler buys: what happens on a machine between its start and its first pod.

Karpenter's kwok provider creates Nodes that nothing runs on. Here each becomes what a GPU node of a cloud
becomes: a kubelet without GPUs, and some seconds later the device plugin, GPU Feature Discovery and the
agent's report. The extender does the rest.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.e2e.agents.gpunode_api import PATH as GPU_NODES
from tests.e2e.autoscaler.node_groups import NODE_POOL, NodeGroup
from tests.e2e.cluster.api import APPLY, Api, ApiError, Json
from tests.kube_objects import gpu_node

log = logging.getLogger(__name__)

_NODES = "/api/v1/nodes"
_TICK_S = 0.2
_PAUSE_S = 0.5
_RENEWED_S = 60.0


@dataclass(slots=True)
class _Machine:
    """A bought node. `devices` are those of its report; `patches` replace fields of some, by index."""

    group: NodeGroup
    uid: str
    plugin_due: float
    renewal_due: float = 0.0
    sequence: int = 0
    patches: dict[int, Json] = field(default_factory=dict)


class BoughtNodes:
    """Use `running_bought_nodes`. `groups` are all groups by their names. `plugin_s` passes from a new Node
    to its device plugin and its agent's report; on clouds, half a minute to some minutes.
    """

    def __init__(self, api: Api, groups: Mapping[str, NodeGroup]) -> None:
        self._api = api
        self._groups = groups
        self.plugin_s = 4.0
        self._machines: dict[str, _Machine] = {}
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        loops = (self._watch, self._advance)
        self._threads = [
            threading.Thread(target=self._go_on, args=(loop,), name=loop.__name__, daemon=True)
            for loop in loops
        ]

    def start(self) -> None:
        """Follow all Nodes."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Leave the Nodes as they are."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def names(self, group: str | None = None) -> list[str]:
        """The present nodes, of one group or of all."""
        with self._lock:
            return [name for name, each in self._machines.items() if group in (None, each.group.name)]

    def change(self, node: str, index: int, **fields: object) -> None:
        """Report other values of one GPU from now on, such as its health, and write the report."""
        with self._lock:
            machine = self._machines[node]
            machine.patches[index] = {**machine.patches.get(index, {}), **fields}
            self._report(node, machine)

    def _go_on(self, loop: Callable[[], None]) -> None:
        while not self._stopping.is_set():
            try:
                loop()
            except (ApiError, ConnectionError):
                log.exception("%s starts again", loop.__name__)
                self._stopping.wait(_PAUSE_S)

    def _watch(self) -> None:
        for kind, node in self._api.watch(_NODES, self._stopping.is_set):
            meta = node["metadata"]
            if "kwok" not in node["spec"].get("providerID", ""):
                continue
            with self._lock:
                if kind == "DELETED":
                    self._machines.pop(meta["name"], None)
                elif meta["name"] not in self._machines:
                    self._boot(node)

    def _boot(self, node: Json) -> None:
        """Its kubelet registers, and knows of no GPUs: the provider's Node has them from the first moment."""
        name = node["metadata"]["name"]
        group = self._groups[node["metadata"]["labels"][NODE_POOL]]
        extended = {
            resource: None
            for kind in ("capacity", "allocatable")
            for resource in node["status"].get(kind, {})
            if resource not in group.machine.room
        }
        with _gone_is_fine():
            status = {"capacity": {**group.machine.room, **extended}, "allocatable": extended}
            self._api.patch(f"{_NODES}/{name}/status", {"status": status})
        due = time.monotonic() + self.plugin_s
        self._machines[name] = _Machine(group, node["metadata"]["uid"], due)

    def _advance(self) -> None:
        while not self._stopping.wait(_TICK_S):
            with self._lock:
                for name, machine in list(self._machines.items()):
                    now = time.monotonic()
                    if now >= max(machine.plugin_due, machine.renewal_due):
                        with _gone_is_fine():
                            self._report(name, machine)
                            if machine.sequence == 1:
                                self._plug_in(name, machine)

    def _plug_in(self, name: str, machine: _Machine) -> None:
        """The device plugin and GPU Feature Discovery."""
        group, node = machine.group, f"{_NODES}/{name}"
        self._api.patch(node, {"metadata": {"labels": group.discovered_labels}})
        if group.plugin_resources:
            self._api.patch(f"{node}/status", {"status": {"capacity": group.plugin_resources}})

    def _report(self, name: str, machine: _Machine) -> None:
        """The agent's report, which it repeats."""
        machine.sequence += 1
        machine.renewal_due = time.monotonic() + _RENEWED_S
        devices = [
            device | machine.patches.get(device["index"], {}) for device in machine.group.devices(name)
        ]
        strategy = {} if "mig" not in devices[0] else {"migStrategy": "mixed"}
        report = gpu_node(name, devices, sequence=machine.sequence, **strategy)
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": machine.uid}
        made = {**report, "metadata": {"name": name, "ownerReferences": [owner]}}
        query = "fieldManager=scheduler-ext-agent&force=true"
        self._api.patch(f"{GPU_NODES}/{name}?{query}", made, APPLY)
        self._api.patch(f"{GPU_NODES}/{name}/status?{query}", report, APPLY)


@contextlib.contextmanager
def _gone_is_fine() -> Iterator[None]:
    """The node may be gone, or changed since it was read."""
    try:
        yield
    except ApiError as error:
        if error.status not in (404, 409, 422):
            raise


@contextlib.contextmanager
def running_bought_nodes(api: Api, groups: Mapping[str, NodeGroup]) -> Iterator[BoughtNodes]:
    """Bring the nodes of these groups to life."""
    nodes = BoughtNodes(api, groups)
    nodes.start()
    try:
        yield nodes
    finally:
        nodes.stop()
