"""The product installed on the test control plane, and the tests' questions to it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.e2e.cluster import unverified
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.cluster.ports import LOOPBACK
from tests.e2e.cluster.running_pod import RunningPod
from tests.e2e.cluster.whole import Cluster, running_cluster
from tests.e2e.metrics import total

MANIFESTS = Path(__file__).parents[2] / "manifests"
NAMESPACE = "gpu-scheduler"
_EXTENDER_PORT, _HEALTH_PORT, _SCHEDULER_PORT = 8888, 8889, 10259
_ROLLOUT_S = 60
_REPLICAS = 2
# An extender publishes changes within a fraction of this.
_QUIET_S = 0.3


class Installation:
    """The objects in the cluster after `kubectl apply -k`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.plane = cluster.plane
        self.api = cluster.plane.api
        self.kubelet = cluster.kubelet

    def install(self, overlay: str | Path) -> None:
        """Apply one of manifests/ and wait until all its pods are ready."""
        self.plane.kubectl("apply", "--server-side", "-k", MANIFESTS / overlay)
        self.await_rollout()

    def await_rollout(self) -> None:
        """Wait until every Deployment of the project has all its replicas."""
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
        for deployment in self.api.items(path):
            name = deployment["metadata"]["name"]
            wait = f"--timeout={_ROLLOUT_S}s"
            self.plane.kubectl("-n", NAMESPACE, "rollout", "status", f"deployment/{name}", wait)

    def await_ready(self) -> None:
        """Wait until every running pod of the project is ready, whatever was done to it before."""

        def ready() -> bool:
            pods = self.pods()
            return len(pods) == _REPLICAS and all(pod.ready for pod in pods)

        eventually(ready, "our pods are ready", _ROLLOUT_S)

    def pods(self, component: str = "scheduler") -> list[RunningPod]:
        """The running pods of one of the project's Deployments."""
        return self.kubelet.running(NAMESPACE, **{"app.kubernetes.io/component": component})

    def extender_url(self, pod: RunningPod) -> str:
        """The address of a pod's extender for kube-scheduler."""
        return f"http://{LOOPBACK}:{pod.ports.local(_EXTENDER_PORT)}"

    def metric(self, name: str, component: str = "scheduler", **labels: str) -> float:
        """A metric of the extenders, summed over all of them and over the unspecified labels."""
        return sum(self.metric_of(pod, name, **labels) for pod in self.pods(component))

    def active(self) -> RunningPod:
        """The pod whose kube-scheduler holds the Lease.

        One that was stopped and continues believes for 10 s that it still holds it, and schedules.
        """

        def only_leader() -> RunningPod | None:
            leaders = [pod for pod in self.pods() if self.leads(pod)]
            return leaders[0] if len(leaders) == 1 else None

        return eventually(only_leader, "one kube-scheduler leads")

    def leads(self, pod: RunningPod) -> bool:
        """Whether the pod's kube-scheduler reports that it holds the Lease."""
        try:
            return total(self._scheduler_metrics(pod), "leader_election_master_status") == 1
        except OSError:
            return False

    def scheduler_metric(self, name: str, **labels: str) -> float:
        """A metric of the active kube-scheduler."""
        return total(self._scheduler_metrics(self.active()), name, **labels)

    def await_rest(self, waiting: int, timeout_s: float = 30.0) -> None:
        """Wait until the active kube-scheduler has `waiting` pods that it cannot place, no others to try, and
        has tried none between two looks. From then on only a change in the cluster makes it try again."""
        pod = self.active()
        attempts = -1.0

        def rests() -> bool:
            nonlocal attempts
            metrics = self._scheduler_metrics(pod)
            before, attempts = attempts, total(metrics, "scheduler_schedule_attempts_total")
            waits = {
                queue: total(metrics, "scheduler_pending_pods", queue=queue)
                for queue in ("active", "backoff", "unschedulable")
            }
            return attempts == before and waits == {"active": 0, "backoff": 0, "unschedulable": waiting}

        eventually(rests, f"kube-scheduler rests with {waiting} pods that it cannot place", timeout_s)

    def _scheduler_metrics(self, pod: RunningPod) -> str:
        url = f"https://{LOOPBACK}:{pod.ports.local(_SCHEDULER_PORT)}/metrics"
        return unverified.get(url, self.api.token)

    def metric_of(self, pod: RunningPod, name: str, **labels: str) -> float:
        """The same of one of them."""
        metrics = unverified.get(f"http://{LOOPBACK}:{pod.ports.local(_HEALTH_PORT)}/metrics")
        return total(metrics, name, **labels)

    def generations(self) -> dict[RunningPod, float]:
        """The generation of each extender's snapshot."""
        return {pod: self.metric_of(pod, "gpu_extender_snapshot_generation") for pod in self.pods()}

    def await_inventory(self, gpu_nodes: int | None, since: Mapping[RunningPod, float]) -> None:
        """Wait until every extender knows this many nodes with GPUs (None: any number), and the changes since
        then."""

        def known() -> bool:
            return gpu_nodes is None or all(
                self.metric_of(pod, "gpu_extender_inventory_nodes") == gpu_nodes for pod in since
            )

        def settled() -> bool:
            before = self.generations()
            if not known() or any(before[pod] <= generation for pod, generation in since.items()):
                return False
            time.sleep(_QUIET_S)
            return self.generations() == before

        eventually(settled, f"every extender knows {gpu_nodes or 'the'} nodes with GPUs, as they are now")

    def configuration(self) -> dict[str, str]:
        """The files that the pods mount, by name."""
        deployment = self.api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/gpu-scheduler")
        volumes = deployment["spec"]["template"]["spec"]["volumes"]
        (name,) = (each["configMap"]["name"] for each in volumes if "configMap" in each)
        found: dict[str, str] = self.api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}")["data"]
        return found

    def filter(self, extender: RunningPod, asking: Json, names: Sequence[str]) -> list[str]:
        """The nodes that one extender leaves of these, asked about a pod as by kube-scheduler."""
        body = {"Pod": asking, "Nodes": None, "NodeNames": names}
        answer: Json = json.loads(unverified.post(f"{self.extender_url(extender)}/filter", body))
        left: list[str] = answer["NodeNames"]
        return left

    def refuses(self, asking: Json, names: Sequence[str]) -> bool:
        """Whether every extender refuses all of these nodes."""
        return not any(self.filter(extender, asking, names) for extender in self.pods())

    def explain(self, pod: Json) -> Json:
        """The output of `scheduler-ext explain` for a pod on the present cluster."""
        kubeconfig = str(self.plane.kubeconfig("admin"))
        command = ["explain", "--kubeconfig", kubeconfig, "-f", "-", "-o", "json"]
        told = subprocess.run(
            [sys.executable, "-m", "scheduler_ext", *command],
            input=json.dumps({"apiVersion": "v1", "kind": "Pod", **pod}),
            capture_output=True,
            text=True,
            check=False,
        )
        assert told.returncode in (0, 3), told.stderr
        explanation: Json = json.loads(told.stdout)
        return explanation


@contextlib.contextmanager
def running_installation(
    directory: Path, overlay: str | Path = "base", **options: Any
) -> Iterator[Installation]:
    """A cluster of its own with an overlay installed; `options` are those of `running_cluster`."""
    with running_cluster(directory, **options) as cluster:
        installation = Installation(cluster)
        installation.install(overlay)
        yield installation


def filter_calls(installation: Installation) -> Callable[[], float]:
    """The number of filter calls since this was called."""

    def calls() -> float:
        return installation.metric("gpu_extender_request_duration_seconds_count", verb="filter")

    before = calls()
    return lambda: calls() - before
