"""An extender that is gone, hangs or fails: the pod's events show it, nothing is bound wrongly, and it
recovers.
"""

from __future__ import annotations

import re
import signal

import pytest

from tests.e2e.cluster.api import Json, eventually
from tests.e2e.cluster.proxy import running_proxy
from tests.e2e.cluster.running_pod import RunningPod
from tests.e2e.metrics import total
from tests.e2e.second_scheduler import running_scheduler
from tests.e2e.workload import SCHEDULER, Workload
from tests.kube_objects import ANNOTATION

# kube-scheduler's own counting would accept any node; only the extender knows the difference.
WISH = {f"{ANNOTATION}model": "H100"}
# The shipped httpTimeout.
# Messages for an extender that is gone, and for one that ends during a request.
NO_ANSWER = re.compile("connection refused|reset by peer|EOF|broken pipe|server closed idle connection")


def a_choice(workload: Workload) -> str:
    """Two nodes with free GPUs, one of them with those that the pod requests."""
    for i in range(4):
        workload.add_whole(f"a100-{i}", 8)
    right = workload.add_whole("h100", 8, "H100-80GB")
    workload.publish()
    return right


def wishing_pod(workload: Workload, scheduler: str = SCHEDULER) -> Json:
    return workload.pod({"nvidia.com/gpu": "1"}, annotations=WISH, scheduler=scheduler)


def await_error(workload: Workload, name: str, timeout_s: float = 15.0) -> str:
    """The pod's events about a failed attempt, as opposed to one that found no node."""

    def error() -> str | None:
        condition = workload.unscheduled(name)
        return condition["message"] if condition.get("reason") == "SchedulerError" else None

    return eventually(error, f"{name} says that scheduling went wrong", timeout_s)


def test_killed(workload: Workload) -> None:
    right = a_choice(workload)
    pod = workload.installation.active()
    extender = pod.containers["extender"]
    restarts = extender.restarts
    assert extender.child is not None
    extender.child.kill()
    name = workload.create(wishing_pod(workload))
    assert NO_ANSWER.search(await_error(workload, name))
    assert workload.await_node(name) == right
    assert extender.restarts == restarts + 1
    eventually(lambda: pod.ready, "the pod is ready again")


def test_hanging_blocks_one_attempt_and_is_restarted(workload: Workload) -> None:
    right = a_choice(workload)
    pod = workload.installation.active()
    extender = pod.containers["extender"]
    restarts = extender.restarts
    assert extender.child is not None
    extender.child.signal_all(signal.SIGSTOP)
    name = workload.create(wishing_pod(workload))
    workload.place(workload.pod())
    assert "Client.Timeout" in await_error(workload, name)
    # kubelet gives up on the liveness probe after three failures, 5 s apart.
    assert workload.await_node(name, timeout_s=60.0) == right
    assert extender.restarts == restarts + 1
    eventually(lambda: pod.ready, "the pod is ready again")


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        pytest.param(500, b'{"error": "broken"}', "code 500", id="500"),
        pytest.param(200, b"<html>", "invalid character", id="an answer that is not JSON"),
        pytest.param(200, b'{"Error": "no inventory"}', "no inventory", id="an error in the answer"),
    ],
)
def test_failing_is_tried_again_ever_more_slowly(
    workload: Workload, status: int, body: bytes, said: str
) -> None:
    right = a_choice(workload)
    installation = workload.installation
    with (
        running_proxy(installation.extender_url(installation.active())) as proxy,
        running_scheduler(installation.plane, proxy.url) as scheduler,
    ):
        proxy.answer_instead = (status, body)
        name = workload.create(wishing_pod(workload, scheduler.name))
        assert said in await_error(workload, name)
        eventually(lambda: proxy.calls["filter"] >= 3, "it is tried again")

        def backs_off() -> bool:
            return total(scheduler.metrics(), "scheduler_pending_pods", queue="backoff") == 1

        eventually(backs_off, "it waits before the next time")
        assert proxy.calls["filter"] <= 5
        assert "nodeName" not in workload.get(name)["spec"]
        proxy.answer_instead = None
        assert workload.await_node(name) == right


def test_the_standby_takes_over(workload: Workload) -> None:
    right = a_choice(workload)
    active = workload.installation.active()
    scheduler = active.containers["kube-scheduler"]
    restarts = scheduler.restarts
    assert scheduler.child is not None
    # Stopped, not killed: a process that is restarted at once may lead again.
    scheduler.child.signal_all(signal.SIGSTOP)
    try:
        assert workload.await_node(workload.create(wishing_pod(workload)), timeout_s=60.0) == right
        assert successor(workload, active) is not active
    finally:
        scheduler.child.signal_all(signal.SIGCONT)
    # It remains leader until it has tried in vain for 10 s to renew its Lease.
    eventually(lambda: scheduler.restarts > restarts, "the first scheduler has given up", 60.0)
    eventually(lambda: active.ready, "the first pod is ready again", 60.0)


def successor(workload: Workload, than: RunningPod) -> RunningPod:
    (other,) = (pod for pod in workload.installation.pods() if pod is not than)
    return other if workload.installation.leads(other) else than
