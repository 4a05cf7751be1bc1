"""Lets every scheduler of claims know which GPUs are sick or cordoned: by DeviceTaintRules, which the active
extender writes and removes again. Rules of others are never changed."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from urllib.parse import quote

from scheduler_ext.background import Background
from scheduler_ext.binding.locked_cache import LockedCache
from scheduler_ext.cluster.client.transport import JSON, RefusedError, Transport
from scheduler_ext.core.dra.device_taints import CORDONED, UNHEALTHY, DeviceTaint, by_rule
from scheduler_ext.core.dra.published import DeviceId
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.features.claims.counters import TAINT_WRITES
from scheduler_ext.wire.dra.taint_rule import taint_rule_body

log = logging.getLogger(__name__)

# How often wanted and existing rules are compared.
EVERY_S = 2.0
# The most rules that are written between two looks: a wrong report of many nodes does its harm slowly.
_MOST = 50
_CALL_S = 5.0


class TaintWriter(Background):
    """Writes while `active` says that this extender writes to the cluster. `path` returns the path of the
    rules once they are listed, None before; `snapshot` the latest inventory."""

    writes = TAINT_WRITES

    def __init__(
        self,
        transport: Transport,
        locked: LockedCache,
        active: Callable[[], bool],
        path: Callable[[], str | None],
        snapshot: Callable[[], Snapshot | None],
    ) -> None:
        super().__init__("device-taints")
        self._transport = transport
        self._locked = locked
        self._active = active
        self._path = path
        self._snapshot = snapshot
        self.problem: str | None = None
        # The node of each pool that was listed.
        self._homes: dict[str, str] = {}

    def run(self) -> None:
        while not self.stopped.wait(EVERY_S):
            path, snapshot = self._path(), self._snapshot()
            if path is not None and snapshot is not None and self._active():
                try:
                    self._reconcile(path, snapshot)
                except Exception:
                    log.exception("DeviceTaintRules: unexpected error; trying again")

    def _reconcile(self, path: str, snapshot: Snapshot) -> None:
        """Create the rules that are missing, and delete those of this product that nothing asks for: their
        device is well, or its node is gone. While a device is not listed, its rule stays: a driver that
        starts again lists it first, and schedulers may choose it before a new rule is there."""
        with self._locked as cache:
            rules = cache.devices.rules()
        wanted, looked_at = self._looked_at(snapshot)
        missing = [taint for name, taint in wanted.items() if name not in rules]
        needless = [
            rule
            for name, rule in rules.items()
            if rule.ours
            and name not in wanted
            and (self._is_gone(rule.pool, snapshot) or any(rule.is_about(id) for id in looked_at[rule.pool]))
        ]
        problem = None
        for taint in missing[:_MOST]:
            problem = self._call("POST", path, taint.rule, taint_rule_body(path, taint)) or problem
        for rule in needless[:_MOST]:
            body = {"preconditions": {"uid": rule.uid}}
            problem = self._call("DELETE", f"{path}/{quote(rule.name)}", rule.name, body) or problem
        if problem is not None and problem != self.problem:
            log.warning("DeviceTaintRules are not as wanted, trying again: %s", problem)
        self.problem = problem

    def _looked_at(
        self, snapshot: Snapshot
    ) -> tuple[dict[str, DeviceTaint], Mapping[str | None, list[DeviceId]]]:
        """The wanted taints by the names of their rules, and by pool the listed devices of whose GPUs an
        agent reports."""
        wanted: dict[str, DeviceTaint] = {}
        looked_at: defaultdict[str | None, list[DeviceId]] = defaultdict(list)
        homes = {pool: home for pool, home in self._homes.items() if home in snapshot.nodes}
        for name, node in snapshot.nodes.items():
            info = node.info
            if info.dra is None:
                continue
            homes |= dict.fromkeys((device.id.pool for device in info.dra.devices), name)
            is_reported = info.report is not None and not info.report.from_slices
            if is_reported and info.freshness == "Fresh":
                wanted |= by_rule(_wanted_taints(info))
                for device in info.dra.devices:
                    looked_at[device.id.pool].append(device.id)
        self._homes = homes
        return wanted, looked_at

    def _is_gone(self, pool: str | None, snapshot: Snapshot) -> bool:
        """Whether the node of a pool is gone. Most drivers name the pool after its node."""
        return pool not in self._homes and pool not in snapshot.nodes

    def _call(self, method: str, path: str, name: str, body: Mapping[str, object]) -> str | None:
        """Write one rule; returns the problem."""
        try:
            self._transport.send(method, path, dict(body), JSON, timeout_s=_CALL_S)
        except RefusedError as error:
            # Another extender was faster, or the watch is late.
            if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                return None
            self.writes.inc("failed")
            return f"{name}: {error}"
        except ClusterError as error:
            self.writes.inc("failed")
            return f"{name}: {error}"
        self.writes.inc("created" if method == "POST" else "deleted")
        return None


def _wanted_taints(info: NodeInfo) -> Iterator[DeviceTaint]:
    """A taint for each published device on a GPU that the agent reports as sick, or that is cordoned."""
    if info.dra is None:
        return
    gpus = {device.uuid: device for device in info.devices}
    for device in info.dra.devices:
        gpu = gpus.get(device.on)
        if gpu is None:
            continue
        if not gpu.healthy:
            yield DeviceTaint(device.id, UNHEALTHY)
        if gpu.cordoned:
            yield DeviceTaint(device.id, CORDONED)
