"""The overlay for shares on the real control plane: advertised, bound with its GPU, kept in the ledger."""

from __future__ import annotations

import json

from tests.e2e.cluster.api import eventually
from tests.e2e.history import ASSIGNED
from tests.e2e.shares.share_cluster import VOID, container, own, share, variables
from tests.e2e.shares.share_workload import ROOM_MIB, ShareWorkload
from tests.e2e.workload import MIG_HALF
from tests.held import held

SIZES_OF = {"beside": 10000, "load": 60000, "check": 20000, "main": 30000}


def in_ledger(workload: ShareWorkload, node: str) -> list[list[tuple[str, str, int, str, str]]]:
    """The holdings of a node in each extender's ledger: pod, container, MiB, GPU, state."""
    return [
        sorted(
            (each["name"], each["container"], each["memoryMiB"], uuid, each["state"])
            for uuid, device in workload.ledger(extender)[node]["devices"].items()
            for each in device["holdings"]
        )
        for extender in workload.installation.pods()
    ]


def test_a_pod_is_bound_with_a_gpu_for_each_container(share_workload: ShareWorkload) -> None:
    workload = share_workload
    node = workload.add_shared("shared", 2)
    workload.publish()
    containers = [share("main", "60000"), share("embed", "40000"), container("logs")]
    name = workload.create(workload.pod(containers=containers))
    assert workload.await_node(name) == node
    pod = workload.get(name)
    gpus = workload.devices(name)
    assert gpus.keys() == {"main", "embed"}
    assert set(gpus.values()) == {workload.gpu("shared", 0), workload.gpu("shared", 1)}
    assert json.loads(pod["metadata"]["annotations"][ASSIGNED]) == {
        "node": node,
        "containers": [
            {"container": "main", "memoryMiB": 60000, "device": gpus["main"]},
            {"container": "embed", "memoryMiB": 40000, "device": gpus["embed"]},
        ],
    }
    assert variables(pod) == {"main": [own("main")], "embed": [own("embed")], "logs": [VOID]}
    expected = [
        (name, "embed", 40000, gpus["embed"], "Confirmed"),
        (name, "main", 60000, gpus["main"], "Confirmed"),
    ]
    eventually(lambda: in_ledger(workload, node) == [expected, expected], "both extenders' ledgers have it")
    workload.remove(name)
    eventually(lambda: in_ledger(workload, node) == [[], []], "and have it no more")


def test_units_of_the_device_plugin_are_bound_without_a_device(share_workload: ShareWorkload) -> None:
    """The ledger counts it without one, an init container's if that is larger."""
    workload, resource = share_workload, MIG_HALF
    node = workload.add_mig("node", 2)
    workload.publish()
    main = {"name": "main", "image": "train:1", "resources": {"limits": {resource: "1"}}}
    load = {**main, "name": "load", "resources": {"limits": {resource: "2"}}}
    name = workload.create(workload.pod(containers=[main], initContainers=[load]))
    assert workload.await_node(name) == node
    assert workload.devices(name) == {}
    containers = [
        {"container": "load", "resource": resource, "count": 2},
        {"container": "main", "resource": resource, "count": 1},
    ]
    assigned = workload.get(name)["metadata"]["annotations"][ASSIGNED]
    assert json.loads(assigned) == {"node": node, "containers": containers}

    def counted() -> list[int]:
        ledgers = [workload.ledger(extender) for extender in workload.installation.pods()]
        return [each["count"] for ledger in ledgers for each in ledger[node]["unknownDevices"]]

    eventually(lambda: counted() == [2, 2], "both ledgers count two of no device")
    assert workload.place(workload.pod({resource: "1"})) == node
    late = workload.create(workload.pod({resource: "2"}))
    workload.await_event(late, "FailedScheduling")
    assert "nodeName" not in workload.get(late)["spec"]


def test_init_containers_and_sidecars_are_given_gpus_too(share_workload: ShareWorkload) -> None:
    """The held amount equals kube-scheduler's: the peak; the app has only a part of it."""
    workload = share_workload
    node = workload.add_shared("shared", 2)
    workload.publish()
    crowd = workload.create(workload.share(ROOM_MIB - 5000))
    workload.await_node(crowd)
    beside, load, check, main = (share(each, str(mib)) for each, mib in SIZES_OF.items())
    init = [beside | {"restartPolicy": "Always"}, load, check, container("logs")]
    name = workload.create(workload.pod(containers=[main], initContainers=init))
    assert workload.await_node(name) == node
    pod, gpus = workload.get(name), workload.devices(name)
    (other,) = workload.devices(crowd).values()
    assert gpus.keys() == {"beside", "load", "check", "main"}
    free = ({workload.gpu("shared", 0), workload.gpu("shared", 1)} - {other}).pop()
    assert set(gpus.values()) == {free}
    assert variables(pod) == {each: [own(each)] for each in gpus} | {"logs": [VOID]}
    assert held(pod) == {free: 70000}
    rows = [(name, each, mib, gpus[each], "Confirmed") for each, mib in SIZES_OF.items()]
    rows.append((crowd, "main", ROOM_MIB - 5000, other, "Confirmed"))
    eventually(lambda: in_ledger(workload, node) == [sorted(rows)] * 2, "both ledgers have them all")
    assert workload.place_on_gpu(workload.share(5000)) == other
    assert workload.place_on_gpu(workload.share(ROOM_MIB - 70000)) == free
    late = workload.create(workload.share(1))
    assert "Insufficient" in workload.await_event(late, "FailedScheduling")["note"]
    assert "nodeName" not in workload.get(late)["spec"]


def test_a_share_bound_by_another_user_closes_its_node(share_workload: ShareWorkload) -> None:
    workload = share_workload
    node = workload.add_shared("shared", 4)
    workload.publish()
    installation = workload.installation
    # The project's scheduler finds no such node; a Binding bypasses it.
    foreign = workload.create(workload.share(1024, nodeSelector={"nobody": "has-it"}))
    workload.await_event(foreign, "FailedScheduling")
    workload.bind(foreign, node)
    metric = "gpu_extender_unplaced_share_pods"
    eventually(lambda: installation.metric(metric, node=node) == 2, "both extenders count it")
    late = workload.create(workload.share(1024))
    workload.await_event(late, "FailedScheduling")
    assert "nodeName" not in workload.get(late)["spec"]
    workload.remove(foreign)
    assert workload.await_node(late) == node
