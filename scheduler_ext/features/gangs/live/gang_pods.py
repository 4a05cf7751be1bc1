"""The pods that may belong to gangs, and how long pods run, as the watch shows them."""

from collections.abc import Collection

from scheduler_ext.cluster.following import PodFollower
from scheduler_ext.cluster.inventory.pod_state import PodState
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.features.gangs.wire.gang_pod import GangPod, gang_pod
from scheduler_ext.wire import kube
from scheduler_ext.wire.gangs import max_duration_s, names_gang


class GangPods(PodFollower):
    """Written by the thread of one watch; read by any."""

    def __init__(self, resources: ResourceNames) -> None:
        self._resources = resources
        self._pods: dict[str, GangPod] = {}
        self._durations: dict[str, float] = {}

    def upsert(self, uid: str, pod: kube.Pod, state: PodState) -> None:
        self._read(uid, pod)

    def unreadable(self, uid: str, pod: kube.Pod) -> None:
        self._read(uid, pod)

    def _read(self, uid: str, pod: kube.Pod) -> None:
        if names_gang(pod):
            self._pods[uid] = gang_pod(pod, self._resources)
        else:
            self._pods.pop(uid, None)
        duration = max_duration_s(pod)
        if duration is None:
            self._durations.pop(uid, None)
        else:
            self._durations[uid] = duration

    def forget(self, uids: Collection[str]) -> None:
        for uid in uids:
            self._pods.pop(uid, None)
            self._durations.pop(uid, None)

    def known(self) -> set[str]:
        return {*self._pods, *self._durations}

    def all(self) -> list[GangPod]:
        """The pods that may belong to gangs."""
        return list(self._pods.values())

    def any(self) -> bool:
        """Whether there are such pods."""
        return bool(self._pods)

    def get(self, uid: str) -> GangPod | None:
        return self._pods.get(uid)

    def duration_s(self, uid: str) -> float | None:
        """The longest time in seconds that a pod runs, if it says so."""
        return self._durations.get(uid)
