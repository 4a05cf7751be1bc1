"""The pods with GPUs, and those that wait for some with their reason and their nearest node."""

import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from threading import Lock
from typing import Any, NamedTuple

from scheduler_ext.core.errors import RequestError
from scheduler_ext.core.framework.refusal import INVALID_REQUEST
from scheduler_ext.core.node.claimed import gpu_pods
from scheduler_ext.core.node.node import BoundPod, NodeInfo, PendingPod
from scheduler_ext.explain.explain import API_VERSION
from scheduler_ext.explain.explainer import (
    ExplainedCluster,
    Explainer,
    Likeness,
    held_devices,
    other_scheduler,
)
from scheduler_ext.explain.sentences import BEING_DELETED, request_in_words
from scheduler_ext.extender.record import Record, Recorded
from scheduler_ext.wire.times import micro_time

log = logging.getLogger(__name__)

NOT_ASKED = "kube-scheduler has not asked about it"
FITS_NOW = "it fits now; kube-scheduler has yet to try again"
# In place of the workloads beyond the limit; no namespace has this name.
OTHERS = ("_others", "", "")
UNREADABLE = "something that cannot be read"
# The list of waiting pods is renewed this often at most.
_LIST_S = 2.0
# The search for the nearest node covers all nodes: it may take this part of the time, and this much at once.
_PART = 0.05
_AT_ONCE_S = 0.5
# A scrape waits less long.
_AT_SCRAPE_S = 0.05
MOST_LINES = 500
# A pod that fits is placed in seconds: it is in no list of long waits.
LONG_S = 60.0

_Diagnosis = Mapping[str, Any] | None
_ITEM: dict[str, Any] = dict.fromkeys(
    (
        *("namespace", "name", "uid", "state", "node", "priority", "asks", "devices"),
        *("reason", "nearest", "commonest", "since"),
    )
)


class LongWait(NamedTuple):
    """A pod that has waited for `seconds` since its creation."""

    namespace: str
    name: str
    reason: str
    seconds: float


class WaitingPods:
    """Safe to use from any thread. The nearest node is computed once for equal pods, a few kinds at a time,
    so that it takes little time; a result stays until the kind's turn comes again."""

    def __init__(
        self,
        source: ExplainedCluster,
        record: Record,
        explainer: Explainer,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._record = record
        self._explainer = explainer
        self._monotonic = monotonic
        self._lock = Lock()
        self._lines: list[dict[str, Any]] = []
        # By identity, of the pods in the list and of those that wait longest.
        self._reasons: dict[str, str] = {}
        self._most_long = 0
        self._listed_until = self._idle_until = 0.0
        # The kind that was examined longest ago comes first.
        self._diagnoses: OrderedDict[Likeness, _Diagnosis] = OrderedDict()

    def reasons(self) -> dict[str, int]:
        """The number of waiting pods by reason: the reason of `lines`; for pods that are not examined yet,
        the most frequent reason of the last filter."""
        return dict(Counter(map(self._reasons_at_scrape(), still_waiting(self._source.pending()))))

    def longest(self, wall_time: float, most: int) -> list[LongWait]:
        """The pods that have waited longest since their creation, the longest first: at most `most`, each for
        LONG_S at least, none with scheduling gates. `wall_time` is now, in seconds since 1970; reasons are as
        in `reasons`."""
        if most > self._most_long:
            with self._lock:
                self._most_long, self._listed_until = most, 0.0
        reason = self._reasons_at_scrape()
        return [
            LongWait(each.pod.namespace, each.pod.name, reason(each), wall_time - at)
            for at, each in _oldest(self._source.pending(), most)
            if wall_time - at >= LONG_S
        ]

    def by_workload(self, most: int) -> dict[tuple[str, str, str], int]:
        """The number of waiting pods by namespace, kind and name of the object that made them; kind and name
        are empty for pods that nothing made, and for pods with scheduling gates nothing counts. At most
        `most` workloads, those with most pods; the others are OTHERS together."""
        waiting = (each for each in still_waiting(self._source.pending()) if not each.gated)
        counts = Counter((each.pod.namespace, *(each.workload or ("", ""))) for each in waiting)
        first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        found = dict(first[:most])
        if rest := sum(count for _, count in first[most:]):
            found[OTHERS] = rest
        return found

    def _reasons_at_scrape(self) -> Callable[[PendingPod], str]:
        self._listed(_AT_SCRAPE_S)
        reasons = self._reasons

        def reason(waiting: PendingPod) -> str:
            shown = reasons.get(waiting.pod.identity)
            return shown or _reason(waiting, self._record.of_pod(waiting.pod))

        return reason

    def lines(self) -> list[dict[str, Any]]:
        """The waiting pods, the highest priority first, then the longest waiting; at most 500. Plain JSON
        values: `namespace`, `name`, `uid`, `state` (`Waiting`; `Terminating` of one that is being deleted),
        `priority`, `since`, `asks`, `filters` (how often kube-scheduler asked), `served` (whether its
        scheduler asks this extender, as far as known), `fits` (the number of nodes that it fits on; None if
        unknown), `reason` (of the node that is nearest to a fit; until that is known, the most frequent
        reason of the last filter), `nearest` (a sentence, or None), `commonest` (the `reason` that refuses
        most, its number of `nodes`, `of` all; or None), `refusals` (the number of nodes by reason, once they
        are known), `nominated` (the node where it waits for others to leave)."""
        return self._listed(_AT_ONCE_S)

    def _listed(self, at_once_s: float) -> list[dict[str, Any]]:
        with self._lock:
            now = self._monotonic()
            if now >= self._listed_until:
                self._listed_until = now + _LIST_S
                self._lines = self._found(now, at_once_s)
            return self._lines

    def _found(self, now: float, at_once_s: float) -> list[dict[str, Any]]:
        waiting = sorted(
            self._source.pending(), key=lambda each: (-each.pod.priority, each.pod.created_at or 0.0)
        )
        long = (each for _, each in _oldest(waiting[MOST_LINES:], self._most_long))
        pods = [*waiting[:MOST_LINES], *long]
        kinds = [self._explainer.likeness(each) for each in pods]
        # The first pod of each kind.
        alike = dict(zip(reversed(kinds), reversed(pods), strict=True))
        for gone in self._diagnoses.keys() - alike.keys():
            del self._diagnoses[gone]
        if now >= self._idle_until:
            self._look_into(alike, dict.fromkeys(kinds), now, at_once_s)
        lines = [
            self._line(each, None if each.pod.terminating else self._diagnoses.get(kind))
            for each, kind in zip(pods, kinds, strict=True)
        ]
        self._reasons = {each.pod.identity: line["reason"] for each, line in zip(pods, lines, strict=True)}
        return lines[:MOST_LINES]

    def _look_into(
        self, alike: Mapping[Likeness, PendingPod], kinds: Iterable[Likeness], begun: float, at_once_s: float
    ) -> None:
        """As many kinds as there is time for: new ones first, the most urgent before others."""
        new = [kind for kind in kinds if kind not in self._diagnoses]
        now = begun
        for kind in [*new, *self._diagnoses]:
            self._diagnoses[kind] = self._diagnosed(alike[kind])
            self._diagnoses.move_to_end(kind)
            now = self._monotonic()
            if now - begun >= at_once_s:
                break
        self._idle_until = now + (now - begun) / _PART

    def _diagnosed(self, waiting: PendingPod) -> _Diagnosis:
        try:
            return self._explainer.of_waiting(waiting)
        except RequestError:
            pass
        except Exception:
            # One unreadable pod must not take the list, nor a scrape, from all others.
            log.exception("pod %s/%s: cannot be looked into", waiting.pod.namespace, waiting.pod.name)
        return None

    def _line(self, waiting: PendingPod, diagnosis: _Diagnosis) -> dict[str, Any]:
        pod, entry = waiting.pod, self._record.of_pod(waiting.pod)
        reason = _reason(waiting, entry)
        nearest = diagnosis["nearest"] if diagnosis is not None and waiting.invalid is None else None
        # Until it is examined, the last filter decides.
        fits = 0 if entry is not None and entry.filters and not entry.nodes_out else None
        if diagnosis is not None:
            fits = diagnosis["nodes"] - sum(diagnosis["counts"].values())
        if waiting.invalid is not None:
            text: str | None = waiting.invalid
        elif nearest is not None:
            text, reason = nearest["text"], nearest["reason"]
        else:
            text = FITS_NOW if diagnosis is not None and fits else None
            if (wait := self._explainer.beside_nodes(waiting)) is not None:
                text, reason = wait.text, wait.reason or reason
        commonest = None
        if diagnosis is not None and nearest is not None:
            most, nodes = next(iter(diagnosis["counts"].items()))
            commonest = {"reason": most, "nodes": nodes, "of": diagnosis["nodes"]}
        wanted = request_in_words(pod.request)
        if waiting.invalid is not None:
            # The known part; `nearest` has the problem.
            wanted = f"{wanted}, and {UNREADABLE}" if wanted else UNREADABLE
        filters = entry.filters if entry is not None else 0
        stranger = other_scheduler(waiting.scheduler_name, filters > 0, self._explainer.config)
        if waiting.invalid is None:
            text = stranger or text
        if pod.terminating:
            reason = text = BEING_DELETED
        return {
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
            "state": "Terminating" if pod.terminating else "Waiting",
            "priority": pod.priority,
            "since": micro_time(pod.created_at) if pod.created_at is not None else None,
            "asks": wanted,
            "filters": filters,
            "served": stranger is None,
            "fits": fits,
            "reason": reason,
            "nearest": text,
            "commonest": commonest,
            "refusals": dict(diagnosis["counts"]) if commonest is not None and diagnosis is not None else {},
            "nominated": waiting.nominated_node,
        }


def still_waiting(pending: Iterable[PendingPod]) -> Iterator[PendingPod]:
    """All but those that are being deleted: finalizers keep these, and kube-scheduler skips them."""
    return (each for each in pending if not each.pod.terminating)


def _oldest(pending: Iterable[PendingPod], most: int) -> list[tuple[float, PendingPod]]:
    """The pods that were created first, with the time; none with scheduling gates."""
    times = ((each.pod.created_at, each) for each in still_waiting(pending) if not each.gated)
    created = ((at, each) for at, each in times if at is not None)
    return nsmallest(most, created, key=lambda pair: pair[0])


def _reason(waiting: PendingPod, entry: Recorded | None) -> str:
    if waiting.invalid is not None:
        return INVALID_REQUEST.text
    return (entry.main_reason if entry is not None else None) or NOT_ASKED


def pod_list(infos: Iterable[NodeInfo], waiting: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The GPUPodList of these nodes, by namespace and name; `waiting` are lines of `WaitingPods`."""
    items = [placed_item(pod, info) for info in infos for pod in gpu_pods(info)]
    for line in waiting:
        waits = {key: value for key, value in line.items() if key in _ITEM}
        items.append(_ITEM | waits | {"devices": []})
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUPodList",
        "items": sorted(items, key=lambda item: (item["namespace"], item["name"])),
    }


def placed_item(pod: BoundPod, info: NodeInfo) -> dict[str, Any]:
    """A pod that holds GPUs of a node, as an item of a GPUPodList."""
    followed = any(pod.uid == each.uid for each in info.pods)
    return _ITEM | {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "priority": pod.priority if followed else None,
        "state": "Assumed" if pod.uid in info.assumed else "Terminating" if pod.terminating else "Bound",
        "node": info.name,
        "asks": request_in_words(pod.request),
        "devices": held_devices(pod, info),
    }
