"""The metrics about nodes and their reports, with the labels of the metrics about their GPUs. A node that is
Missing has them too, because an operator looks for it."""

from collections.abc import Iterator
from typing import NamedTuple

from scheduler_ext.core.node.node import Node
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.server.metrics.gpu_metrics import Detail, labels_of, visible
from scheduler_ext.sources.source_status import Watched
from scheduler_ext.views.node_usage import PerNode

STATES = {"Fresh": 0, "Stale": 1, "Missing": 2}
_STATE = "gpu_extender_node_state"
_AGE = "gpu_extender_node_report_age_seconds"


class _Lines(NamedTuple):
    """The finished lines about a node's state, and the beginnings of those about the age of its report."""

    states: bytes
    ages: tuple[bytes, ...]


class NodeText:
    """Renders both metrics; for one thread at a time. Ages change with every scrape, so only the labels are
    kept."""

    def __init__(self, source: Watched, detail: Detail) -> None:
        self._source = source
        self._detail: Detail = detail
        self._nodes = PerNode(_lines)
        self._of_snapshot: tuple[Snapshot, dict[str, _Lines]] | None = None

    def render(self) -> bytes:
        """The exposition text; empty at the level of clusters."""
        snapshot = self._source.snapshot
        if snapshot is None or self._detail == "cluster":
            return b""
        if self._of_snapshot is None or self._of_snapshot[0] is not snapshot:
            self._of_snapshot = snapshot, self._nodes.of(snapshot)
        return b"".join(self._families(self._of_snapshot[1]))

    def _families(self, nodes: dict[str, _Lines]) -> Iterator[bytes]:
        values = ", ".join(f"{value} {name}" for name, value in STATES.items())
        yield _head(_STATE, f"State of the node's report: {values}.")
        yield from (lines.states for lines in nodes.values())
        yield _head(
            _AGE,
            (
                "The age of the node's report; not with metrics.detail cluster, and no series for an "
                "inventory file, whose reports do not age."
            ),
        )
        for name, age_s in self._source.status().report_ages_s.items():
            known = nodes.get(name)
            for begun in known.ages if known is not None else ():
                yield b"%b %.1f\n" % (begun, age_s)


def _head(name: str, what: str) -> bytes:
    return f"# HELP {name} {what}\n# TYPE {name} gauge\n".encode()


def _lines(node: Node) -> _Lines:
    info = node.info
    if info.report is None and info.estimate is None and info.freshness == "Fresh":
        # No node of GPUs.
        return _Lines(b"", ())
    models = list(dict.fromkeys(device.product for device in info.devices))
    if not models:
        models = [info.estimate.model.name if info.estimate is not None else ""]
    labels = [labels_of(hostname=info.name, modelName=model) for model in models]
    states = "".join(f"{_STATE}{each} {STATES[info.freshness]}\n" for each in labels)
    return _Lines(visible(states.encode()), tuple(visible(f"{_AGE}{each}".encode()) for each in labels))
