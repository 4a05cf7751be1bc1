"""All that decisions follow from, taken from a running extender and brought to life elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler_ext.core.cycle.placement import Sizing
from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.forecast.mig_tuning import MigTables
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.columns import Ints
from scheduler_ext.core.node.node import BoundPod, NodeInfo, PendingPod
from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.core.snapshot.name_index import NameIndex
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.core.snapshot.table import build_snapshot
from scheduler_ext.extender.candidates import Names
from scheduler_ext.extender.record import Offered, Record, Recorded
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.snapshot_file import SnapshotFile, StoredDecision, StoredOffer


@dataclass(frozen=True, slots=True)
class Replayed:
    """An extender's state as it was: what its decisions saw, who waited, and what it had decided."""

    snapshot: Snapshot
    waiting: Sequence[PendingPod]
    facts: Mapping[str, NodeFacts]
    record: Record
    config: Configuration
    gone: frozenset[str]

    def pending(self) -> Sequence[PendingPod]:
        """The pods that ask GPUs and had no node."""
        return self.waiting

    def is_gone(self, uid: str) -> bool:
        """Whether a pod was known neither to wait for GPUs nor to hold any."""
        return uid in self.gone

    def node_facts(self) -> Mapping[str, NodeFacts]:
        """What kube-scheduler's own filters compare of each Node, without amounts."""
        return self.facts


def taken(
    snapshot: Snapshot,
    pending: Iterable[PendingPod],
    facts: Mapping[str, NodeFacts],
    record: Iterable[Recorded],
    config: Configuration,
    is_gone: Callable[[str], bool],
) -> SnapshotFile:
    """The state of a running extender, without what no decision about a pod reads.

    ``is_gone`` tells of a uid whether that pod is known not to be there any more.
    """
    nodes = [node.info for node in snapshot.nodes.values()]
    workload = snapshot.forecast.workload
    offers = _Offers([info.name for info in nodes])
    decisions = [_stored(entry, offers, gone=is_gone(entry.uid)) for entry in record]
    return SnapshotFile(
        generation=snapshot.generation,
        at=time.time(),
        configuration=config,
        nodes=[_redacted(info) for info in nodes],
        workload=list(workload.parts.items()),
        unknown=workload.unknown,
        tuned=snapshot.forecast.mig_tables.mixes,
        pending=[replace(waiting, pod=_without_labels(waiting.pod)) for waiting in pending],
        facts=list(facts.values()),
        offers=offers.stored,
        decisions=decisions,
    )


def revived(file: SnapshotFile) -> Replayed:
    """What was taken, ready to be asked; takes a second for each MIG geometry whose tables were tuned."""
    config = file.configuration
    sizing = Sizing(config.policy(), config.resource_names(), config.memory.headroom_percent)
    nodes = {info.name: sizing.resolved(info) for info in file.nodes}
    workload = Workload(dict(file.workload), file.unknown)
    forecast = Forecast(workload, (), MigTables.of(file.tuned))
    snapshot = build_snapshot(nodes, file.generation, forecast=forecast)
    record = Record(max(1, len(file.decisions)), 2**62)
    index = NameIndex([info.name for info in file.nodes])
    offers = [_offered(offer, index) for offer in file.offers]
    record.restore(_recorded(each, offers) for each in file.decisions)
    facts = {each.name: each for each in file.facts}
    gone = frozenset(each.uid for each in file.decisions if each.gone)
    return Replayed(snapshot, file.pending, facts, record, config, gone)


class _Offers:
    """Which nodes kube-scheduler asked about, once for all decisions that it asked the same for."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._places: dict[tuple[bytes, bytes], int] = {}
        self._rows: dict[int, tuple[Names, Ints]] = {}
        self.stored: list[StoredOffer] = []

    def place(self, offered: Offered | None) -> int | None:
        if offered is None:
            return None
        rows = self._rows_in(offered.names)
        known = rows >= 0
        # The bit after the last is of nodes that were not there.
        bits = np.append(np.unpackbits(np.frombuffer(offered.bits, np.uint8)), np.uint8(0))
        asked = bits[np.minimum(rows, len(bits) - 1)] * known
        pair = np.packbits(known).tobytes(), np.packbits(asked).tobytes()
        place = self._places.setdefault(pair, len(self.stored))
        if place == len(self.stored):
            self.stored.append(StoredOffer(*pair))
        return place

    def _rows_in(self, names: Names) -> Ints:
        """Where the nodes of the file stood among those of a decision; -1 for those that came later."""
        found = self._rows.get(id(names))
        if found is None:
            rows = np.array([names.get(name, -1) for name in self._names], np.int32)
            # Kept together with the names, so that no others come to have their identity.
            found = self._rows[id(names)] = names, rows
        return found[1]


def _offered(offer: StoredOffer, index: NameIndex) -> Offered:
    known = np.unpackbits(np.frombuffer(offer.known, np.uint8))
    names: Mapping[str, int] = {name: row for name, row in index.items() if known[row]}
    return Offered(names, offer.asked)


def _redacted(info: NodeInfo) -> NodeInfo:
    return replace(
        info,
        pods=tuple(map(_without_labels, info.pods)),
        nominated=tuple(map(_without_labels, info.nominated)),
    )


def _without_labels(pod: BoundPod) -> BoundPod:
    return replace(pod, labels={})


def _stored(entry: Recorded, offers: _Offers, *, gone: bool) -> StoredDecision:
    return StoredDecision(
        uid=entry.uid,
        namespace=entry.namespace,
        name=entry.name,
        pod=entry.pod.decode(),
        first_at=entry.first_at,
        at=entry.at,
        filters=entry.filters,
        generation=entry.generation,
        nodes_in=entry.nodes_in,
        nodes_out=entry.nodes_out,
        rejected=dict(entry.rejected),
        problem=entry.problem,
        offer=offers.place(entry.offered),
        candidates=entry.candidates,
        bound=entry.bound,
        gone=gone,
    )


def _recorded(stored: StoredDecision, offers: Sequence[Offered]) -> Recorded:
    return Recorded(
        uid=stored.uid,
        namespace=stored.namespace,
        name=stored.name,
        pod=stored.pod.encode(),
        first_at=stored.first_at,
        at=stored.at,
        filters=stored.filters,
        generation=stored.generation,
        nodes_in=stored.nodes_in,
        nodes_out=stored.nodes_out,
        rejected=stored.rejected,
        problem=stored.problem,
        offered=offers[stored.offer] if stored.offer is not None else None,
        candidates=stored.candidates,
        bound=stored.bound,
    )
