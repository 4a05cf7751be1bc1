"""GPUs that Dynamic Resource Allocation hands out, on a real kube-scheduler with overlays/dra."""

from __future__ import annotations

from tests.dra_objects import DRIVER, request
from tests.e2e.cluster.api import eventually
from tests.e2e.dra.dra_workload import DraWorkload
from tests.e2e.installation import filter_calls

ONE = {"nvidia.com/gpu": "1"}


def test_an_extended_resource_is_served_by_claims(workload: DraWorkload) -> None:
    node = workload.add_dra("h100", 2)
    workload.await_known()
    for _ in range(2):
        assert workload.place(workload.pod(ONE)) == node
    assert sorted(workload.held()) == [(node, "gpu-0"), (node, "gpu-1")]
    third = workload.create(workload.pod(ONE))
    eventually(lambda: workload.unscheduled(third), "it waits")


def test_a_pod_with_a_claim_of_its_own_is_sent_and_packed(workload: DraWorkload) -> None:
    workload.add_dra("empty", 4)
    used = workload.add_dra("used", 2)
    workload.await_known()
    first = workload.pod(**workload.claim("first", request()))
    first["spec"]["nodeSelector"] = {"kubernetes.io/hostname": used}
    assert workload.place(first) == used
    eventually(lambda: workload.held(), "the claim is allocated")
    calls = filter_calls(workload.installation)
    assert workload.place(workload.pod(**workload.claim("second", request()))) == used
    assert calls() == 1


def test_a_claim_is_not_given_a_gpu_that_is_tainted_by_a_rule(workload: DraWorkload) -> None:
    node = workload.add_dra("h100", 2)
    workload.await_known()
    before = workload.installation.generations()
    workload.taint("sick", driver=DRIVER, pool=node, device="gpu-0")
    eventually(
        lambda: all(workload.installation.generations()[pod] > each for pod, each in before.items()),
        "the rule is known",
    )
    assert workload.place(workload.pod(ONE)) == node
    assert workload.held() == [(node, "gpu-1")]
    second = workload.pod(ONE)
    judged = {each["node"]: each["verdict"] for each in workload.installation.explain(second)["nodes"]}
    assert judged[node] == "rejected"
