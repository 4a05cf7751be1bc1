"""Generated cases: ours binds wherever a stock kube-scheduler binds, unless it has a reason that a user would
agree with.

DRA_CASES is their number; `make test-all` has three hundred.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.dra_objects import DRIVER, device_class
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.dra.dra_workload import CLASSES, MODELS, ROOT, DraWorkload
from tests.e2e.dra.side_by_side import (
    ADMIN,
    BOTH,
    DRA,
    MIG,
    MIG_CLASS,
    NIC_CLASS,
    NIC_DRIVER,
    PLUGIN,
    WHOLE,
    Case,
    NodeCase,
    cases,
)
from tests.e2e.installation import Installation
from tests.e2e.workload import halves
from tests.kube_objects import ANNOTATION, gpu, holder

CASES = cases(seed=21, count=int(os.environ.get("DRA_CASES", "100")))
HELD = [(index, case) for index, case in enumerate(CASES) if case.holder is not None]
STOCK = "default-scheduler"
OURS = "gpu-scheduler"
SETTLED_S = 180.0
# What a case must have for each reason of the extender; that of a count names the resource or the class. Its
# counts are those that an agent or slices support.
AGREED = {
    "node(s) had unhealthy GPUs": {"sick or cordoned GPUs"},
    "node(s) had GPUs that device plugin and DRA could hand out twice": {BOTH},
    "node(s) didn't match the requested GPU model": {"a wish for a model"},
    "per device": {"sick or cordoned GPUs", BOTH},
}


@pytest.fixture
def workload(dra: Installation) -> Iterator[DraWorkload]:
    is_mig = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"
    dra.api.create(CLASSES, device_class(MIG_CLASS, is_mig, extended=None))
    is_gpu = is_mig.replace("'mig'", "'gpu'")
    dra.api.patch(f"{CLASSES}/gpu.nvidia.com", {"spec": device_class(expression=is_gpu)["spec"]})
    dra.api.create(CLASSES, device_class(NIC_CLASS, f"device.driver == '{NIC_DRIVER}'", extended=None))
    with DraWorkload(dra) as workload:
        label = {"resource.kubernetes.io/admin-access": "true"}
        dra.api.patch(f"/api/v1/namespaces/{workload.namespace}", {"metadata": {"labels": label}})
        yield workload


class Generated:
    """The nodes and pods of all cases, in one cluster."""

    def __init__(self, workload: DraWorkload) -> None:
        self.workload = workload
        # The devices of each node as its agent reports them.
        self.reports: dict[str, list[Json]] = {}
        self.cordons: dict[str, list[str]] = {}
        self.sick: set[str] = set()
        # The nodes whose GPUs are handed out in both ways.
        self.both: set[str] = set()
        # What kube-scheduler said of pods that found no node, by case.
        self.said: dict[int, str] = {}
        self._sequence = 0

    def create(self) -> None:
        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(self._add, i, case) for i, case in enumerate(CASES)]:
                done.result()
        self.publish()
        self._cordon()

    def publish(self) -> None:
        self._sequence += 1
        for node, devices in self.reports.items():
            self.workload.report(node, devices, sequence=self._sequence)
        self.workload.publish(all_known=False)

    def _cordon(self) -> None:
        before = self.workload.installation.generations()
        for node, uuids in self.cordons.items():
            annotations = {"gpu.scheduler-ext.io/cordoned": ",".join(uuids)}
            path = f"/apis/gpu.scheduler-ext.io/v1alpha1/gpunodes/{node}"
            self.workload.api.patch(path, {"metadata": {"annotations": annotations}})
        self.workload.installation.await_inventory(None, before)

    def _add(self, index: int, case: Case) -> None:
        for number, node in enumerate(case.nodes):
            self._add_node(index, number, node)
        if case.requests:
            body = {
                "metadata": {"name": f"case-{index}"},
                "spec": {"spec": {"devices": {"requests": list(case.requests)}}},
            }
            self.workload.api.create(self._templates, body)

    @property
    def _templates(self) -> str:
        return f"{ROOT}/namespaces/{self.workload.namespace}/resourceclaimtemplates"

    def _add_node(self, index: int, number: int, case: NodeCase) -> None:
        workload = self.workload
        # The device plugin withdraws sick GPUs.
        healthy = sum(not each.sick for each in case.gpus)
        room = {WHOLE: str(healthy)} if case.kind in (PLUGIN, BOTH) else {}
        # Of those with both ways, every second one is DRA's.
        way = {f"{ANNOTATION}handed-out-by": "dra"} if case.kind == BOTH and index % 2 else {}
        name = workload.add_node(f"{index}-{number}", room, labels={"case": str(index)} | way)
        if case.kind == BOTH:
            self.both.add(name)
        if case.kind != PLUGIN:
            workload.publish_slice(name, self._published(name, case), slices=2 if case.half else 1)
        if case.nic:
            workload.publish_slice(f"{name}", [{"name": "nic-0"}], name=f"{name}-nic", driver=NIC_DRIVER)
        if case.agent:
            self.reports[name] = [self._reported(name, case, i) for i in range(len(case.gpus))]
            cordoned = [f"GPU-{name}-{i}" for i, each in enumerate(case.gpus) if each.cordoned]
            if cordoned:
                self.cordons[name] = cordoned

    def _published(self, name: str, case: NodeCase) -> list[Json]:
        devices = []
        for i, each in enumerate(case.gpus):
            taints = [{"key": "example.com/sick", "effect": "NoSchedule"}] if each.tainted else []
            if case.kind != MIG:
                fields = {"allowMultipleAllocations": True} if case.shared else {}
                devices.append(self.workload.device(name, i, case.model_of(i), taints=taints, **fields))
                continue
            for slot in (0, 4):
                part = self.workload.device(name, i, case.model, taints=taints)
                part["name"] = f"gpu-{i}-mig-{slot}"
                part["attributes"] |= {
                    "type": {"string": "mig"},
                    "uuid": {"string": f"MIG-{name}-{i}-{slot}"},
                    "parentUUID": {"string": f"GPU-{name}-{i}"},
                    "profile": {"string": "3g.40gb"},
                }
                devices.append(part)
        return devices

    def _reported(self, name: str, case: NodeCase, index: int) -> Json:
        each = case.gpus[index]
        model = case.model_of(index)
        total = int(MODELS[model][1].removesuffix("Mi"))
        found = gpu(index, f"GPU-{name}-{index}", model=model, total=total)
        if each.sick:
            self.sick.add(f"GPU-{name}-{index}")
            found["health"] = {"state": "Unhealthy", "reason": "XID 79"}
        if case.kind == MIG:
            found["mig"] = halves(f"{name}-{index}")
        return found

    def _pod(self, index: int, limits: Json, template: str, **fields: Any) -> Json:
        """A pod for the nodes of a case; `template` is that of its claim, or empty."""
        pod = self.workload.pod(limits, nodeSelector={"case": str(index)}, **fields)
        if template:
            pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
        return pod

    def _create(self, pods: Mapping[int, Json]) -> dict[int, str]:
        return dict(zip(pods, self.workload.create_all(list(pods.values())), strict=True))

    def pods(self, scheduler: str) -> dict[int, str]:
        """Create the pod of each case; their names by case."""
        made = {}
        for index, case in enumerate(CASES):
            annotations = {f"{ANNOTATION}model": case.model} if case.model else {}
            template = f"case-{index}" if case.requests else ""
            made[index] = self._pod(
                index, case.limits, template, annotations=annotations, scheduler=scheduler
            )
        return self._create(made)

    def hold(self) -> None:
        """Start the pods that run before, and let agents see those of device plugins."""
        devices = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}
        self.workload.api.create(
            self._templates, {"metadata": {"name": "holder"}, "spec": {"spec": {"devices": devices}}}
        )
        ways: dict[int, tuple[Json, str]] = {
            index: ({}, "holder") if case.holder == "claim" else ({WHOLE: "1"}, "") for index, case in HELD
        }
        names = self._create({index: self._pod(index, *way, scheduler=STOCK) for index, way in ways.items()})
        places = self.settled(names)
        for pod in self.workload.all_pods():
            node = pod["spec"].get("nodeName")
            if node is not None and not has_claim(pod):
                free = next(each for each in self.reports[node] if "health" not in each)
                free["holders"] = [held_by(pod)]
        # The others wait for nothing.
        for index, place in places.items():
            if place is None:
                self.workload.remove(names[index])
        self.publish()

    def settled(self, names: Mapping[int, str]) -> dict[int, str | None]:
        """The node of each pod, None for a pod that found none."""

        def outcome() -> dict[int, str | None] | None:
            # Rarely requested, because listing hundreds of pods is work that kube-scheduler would wait for.
            time.sleep(1.0)
            pods = {pod["metadata"]["name"]: pod for pod in self.workload.all_pods()}
            found: dict[int, str | None] = {}
            for index, name in names.items():
                pod = pods[name]
                if pod["spec"].get("nodeName"):
                    found[index] = pod["spec"]["nodeName"]
                elif refusal := _refusal(pod):
                    found[index] = None
                    self.said[index] = refusal["message"]
                else:
                    return None
            return found

        return eventually(outcome, "every pod has a node or none", SETTLED_S)

    def remove(self, names: Mapping[int, str]) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self.workload.remove, names.values()))
        holders = sum(case.holder == "claim" for case in CASES)
        eventually(
            lambda: (
                sum(c["metadata"]["name"].startswith("pod-") for c in self.workload.claims()) <= holders * 2
            ),
            "their claims are gone",
            60,
        )

    def mixed(self) -> list[str]:
        """The nodes with both ways on which pods have GPUs in both; admin access takes no GPU."""
        admins = {f"case-{index}" for index, case in enumerate(CASES) if case.asks == ADMIN}
        ways: dict[str, set[str]] = {}
        for pod in self.workload.all_pods():
            node = pod["spec"].get("nodeName")
            templates = {each["resourceClaimTemplateName"] for each in pod["spec"].get("resourceClaims", ())}
            if node in self.both and not templates & admins:
                ways.setdefault(node, set()).add("claim" if has_claim(pod) else "device plugin")
        return sorted(node for node, found in ways.items() if len(found) > 1)

    def on_closed(self, names: Collection[str]) -> list[str]:
        """The sick and cordoned GPUs that pods have through claims of devices for themselves."""
        uids = {
            pod["metadata"]["uid"] for pod in self.workload.all_pods() if pod["metadata"]["name"] in names
        }
        closed = self.sick | {uuid for uuids in self.cordons.values() for uuid in uuids}
        found = []
        for claim in self.workload.claims():
            if uids.isdisjoint(each["uid"] for each in claim.get("status", {}).get("reservedFor", ())):
                continue
            for each in claim["status"]["allocation"]["devices"].get("results", ()):
                # The devices are gpu-0 and gpu-0-mig-4.
                uuid = f"GPU-{each['pool']}-{each['device'].split('-')[1]}"
                if each["driver"] == DRIVER and uuid in closed and not each.get("adminAccess"):
                    found.append(f"{uuid} for {claim['metadata']['name']}")
        return found


def has_claim(pod: Json) -> bool:
    """Whether it has a claim, of its own or for an extended resource."""
    return "resourceClaims" in pod["spec"] or "extendedResourceClaimStatus" in pod["status"]


def held_by(pod: Json) -> Json:
    """A pod as the agent reports it at its GPU."""
    uid = pod["metadata"]["uid"]
    return holder(pod["metadata"]["name"], pod["metadata"]["namespace"], uid=uid, container="main")


def _refusal(pod: Json) -> Json | None:
    # A pool that is being published ends an attempt for all its devices with an error.
    found = (
        each
        for each in pod["status"].get("conditions", ())
        if each["type"] == "PodScheduled"
        and each["status"] == "False"
        and each["reason"] in ("Unschedulable", "SchedulerError")
    )
    return next(found, None)


def reasons(message: str) -> set[str]:
    """The reasons of the extender in a message of kube-scheduler."""
    return {reason for reason in AGREED if reason in message} | set(
        re.findall(
            r"node\(s\) (?:had (?:GPUs|no fresh|a GPU)[^,.]*|didn't match the requested GPU model)", message
        )
    )


def test_ours_binds_where_a_stock_scheduler_binds(workload: DraWorkload) -> None:
    generated = Generated(workload)
    generated.create()
    generated.hold()
    names = generated.pods(STOCK)
    stock = generated.settled(names)
    mixed_by_stock = generated.mixed()
    closed_by_stock = generated.on_closed(set(names.values()))
    generated.remove(names)
    # Reports are stale after 150 s.
    generated.publish()
    names = generated.pods(OURS)
    ours = generated.settled(names)
    mixed_by_ours = generated.mixed()
    assert sum(place is not None for place in stock.values()) > len(CASES) / 3, "enough of them bind"
    lost = [index for index, place in stock.items() if place is not None and ours[index] is None]
    surprises = []
    for index in lost:
        refused = workload.unscheduled(names[index])
        if not refused and "extender" not in generated.said[index]:
            # An attempt while its pool was being published; it has a node by now.
            continue
        said = refused.get("message", generated.said[index])
        found = reasons(said)
        if not found or any(not AGREED.get(each, {"?"}) & CASES[index].has for each in found):
            surprises.append((CASES[index], said))
    assert surprises == [], "\n".join(map(str, surprises))
    assert mixed_by_stock, "a stock scheduler hands out GPUs of one node in both ways"
    assert mixed_by_ours == []
    assert closed_by_stock, "a stock scheduler hands out sick and cordoned GPUs"
    assert generated.on_closed(set(names.values())) == []
    assert {node.kind for case in CASES for node in case.nodes} == {PLUGIN, DRA, BOTH, MIG}
