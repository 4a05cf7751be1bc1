"""An extender that is gone or hangs: the pod's events show it, nothing is bound wrongly, and it recovers."""

from __future__ import annotations

import re
import signal

import pytest

from tests.e2e.cluster.api import Json, eventually
from tests.e2e.workload import Workload
from tests.kube_objects import ANNOTATION

# kube-scheduler's own counting would accept any node; only the extender knows the difference.
WISH = {f"{ANNOTATION}model": "H100"}
# Messages for an extender that is gone, and for one that ends during a request.
NO_ANSWER = "connection refused|reset by peer|EOF|broken pipe|server closed idle connection"


def a_choice(workload: Workload) -> str:
    """Two nodes with free GPUs, one of them with those that the pod requests."""
    for i in range(4):
        workload.add_whole(f"a100-{i}", 8)
    right = workload.add_whole("h100", 8, "H100-80GB")
    workload.publish()
    return right


def wishing_pod(workload: Workload) -> Json:
    return workload.pod({"nvidia.com/gpu": "1"}, annotations=WISH)


def await_error(workload: Workload, name: str) -> str:
    """The pod's condition about a failed attempt, as opposed to one that found no node."""

    def error() -> str | None:
        condition = workload.unscheduled(name)
        return condition["message"] if condition.get("reason") == "SchedulerError" else None

    return eventually(error, f"{name} says that scheduling went wrong", 15.0)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        pytest.param(signal.SIGKILL, NO_ANSWER, id="killed"),
        # kubelet gives up on the liveness probe after three failures, 5 s apart.
        pytest.param(signal.SIGSTOP, "Client.Timeout", id="hanging"),
    ],
)
def test_an_extender_that_is(workload: Workload, number: signal.Signals, said: str) -> None:
    """It blocks one attempt and no other pods, and is started again."""
    right = a_choice(workload)
    pod = workload.installation.active()
    extender = pod.containers["extender"]
    restarts = extender.restarts
    assert extender.child is not None
    extender.child.signal_all(number)
    name = workload.create(wishing_pod(workload))
    workload.place(workload.pod())
    assert re.search(said, await_error(workload, name))
    assert workload.await_node(name, timeout_s=60.0) == right
    assert extender.restarts == restarts + 1
    eventually(lambda: pod.ready, "the pod is ready again")


def test_the_standby_takes_over(workload: Workload) -> None:
    right = a_choice(workload)
    installation = workload.installation
    active = installation.active()
    scheduler = active.containers["kube-scheduler"]
    restarts = scheduler.restarts
    assert scheduler.child is not None
    # Stopped, not killed: a process that is restarted at once may lead again.
    scheduler.child.signal_all(signal.SIGSTOP)
    try:
        assert workload.await_node(workload.create(wishing_pod(workload)), timeout_s=60.0) == right
        assert [installation.leads(pod) for pod in installation.pods() if pod is not active] == [True]
    finally:
        scheduler.child.signal_all(signal.SIGCONT)
    # It remains leader until it has tried in vain for 10 s to renew its Lease.
    eventually(lambda: scheduler.restarts > restarts, "the first scheduler has given up", 60.0)
    eventually(lambda: active.ready, "the first pod is ready again", 60.0)
