"""Counts the containers that ran out of GPU memory, each termination once."""

from collections.abc import Collection

from scheduler_ext.cluster.following import PodFollower
from scheduler_ext.cluster.inventory.pod_state import PodState, holds_gpus
from scheduler_ext.features.idle.counters import OUT_OF_MEMORY
from scheduler_ext.features.idle.recommend.gpu_memory_failures import gpu_memory_failures
from scheduler_ext.wire import kube

# The namespaces with a label value of their own: the first ones. The name for all others is not a valid
# namespace.
_MAX_NAMESPACES = 1000
_OTHERS = "_others"


class FailureCount(PodFollower):
    """Terminations in the first complete list are not counted: an earlier process may have counted them."""

    counts = OUT_OF_MEMORY

    def __init__(self) -> None:
        self._counting = False
        # Of the few pods with such a termination, those that their status has now.
        self._known: dict[str, frozenset[tuple[str, str]]] = {}

    def listed(self) -> None:
        self._counting = True

    def upsert(self, uid: str, pod: kube.Pod, state: PodState) -> None:
        if not holds_gpus(state):
            return
        # Prometheus sees no increase in a series that begins at 1.
        label = self._label(pod)
        if label not in self.counts:
            self.counts.inc(label, by=0)
        failures = frozenset(gpu_memory_failures(pod))
        new = failures - self._known.get(uid, frozenset())
        if failures:
            self._known[uid] = failures
        if new and self._counting:
            self.counts.inc(label, by=len(new))

    def forget(self, uids: Collection[str]) -> None:
        for uid in uids:
            self._known.pop(uid, None)

    def _label(self, pod: kube.Pod) -> str:
        namespace = (pod.metadata.namespace if pod.metadata else None) or "default"
        return namespace if namespace in self.counts or len(self.counts) < _MAX_NAMESPACES else _OTHERS
