"""The commands of docs/features/idle/idle.md with their effect: a dry run, warnings, evictions within the
rate, a budget in the way, and an extender that is killed in between."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.agents.gpunode_api import write_report
from tests.e2e.cluster.api import MERGE, Api, Json, eventually
from tests.e2e.documented import Reader, running_reader
from tests.e2e.installation import NAMESPACE, Installation
from tests.e2e.workload import GFD, Workload
from tests.kube_objects import gpu, gpu_node, holder
from tests.pages import ROOT, blocks

pytestmark = pytest.mark.release

LAB = "lab"
PODS = f"/api/v1/namespaces/{LAB}/pods"
AT = "gpu.scheduler-ext.io/reclaim-at"
RECORD = "gpu.scheduler-ext.io/reclaimed"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
LEASE = "gpu-scheduler-reclaim"
_BEAT_S = 1.0
PAGE = ROOT / "docs" / "features" / "idle" / "idle.md"
# Figures of the page and those that a test can wait for.
SHORT = {
    "after: 30m": "after: 1s",
    "minAge: 1h": "minAge: 1s",
    "warnFor: 15m": "warnFor: 15s",
    "perHour: 4": "perHour: 2",
}
RECLAIM = "gpu.scheduler-ext.io/reclaim"
IDLE = ("held", "keep", "one", "three", "two", "woken")
BUDGETS = f"/apis/policy/v1/namespaces/{LAB}/poddisruptionbudgets"


class Lab:
    """The pods are idle until `compute`."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.api: Api = installation.api
        self._workload = Workload(installation)
        self._nodes: dict[str, tuple[str, str]] = {}
        self._busy: set[str] = set()
        self._silent: set[str] = set()
        self._beat_at = 0.0
        self._began = time.monotonic()
        self.api.create_namespace(LAB)

    def add(self, name: str, model: str = "T4", **metadata: Any) -> None:
        """A pod that has run for an hour by its node's clock; `metadata` has further fields."""
        node = self._workload.add_node(name, {"nvidia.com/gpu": "1"})
        pod = self._workload.pod({"nvidia.com/gpu": "1"}, nodeName=node)
        pod["metadata"] |= {"name": name, "namespace": LAB, **metadata}
        self.api.create(PODS, pod)
        eventually(lambda: self.api.get(f"{PODS}/{name}")["status"]["phase"] == "Running", f"{name} runs")
        # The kubelet of the tests reports no times for pods without processes.
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600))
        self.api.patch(f"{PODS}/{name}/status", {"status": {"startTime": started}})
        self._nodes[name] = node, model

    def compute(self, name: str) -> None:
        """From now on the pod's GPU computes."""
        self._busy.add(name)
        self._report(name)

    def silence(self, *names: str) -> None:
        """The agents of these pods report no more: no pod is evicted without a report after its warning."""
        self._silent.update(names)

    def eventually(self, true: Any, what: str, timeout_s: float = 40.0) -> Any:
        """Wait, while agents go on to report."""

        def beating() -> Any:
            if time.monotonic() - self._beat_at > _BEAT_S:
                for name in self._nodes.keys() - self._silent:
                    self._report(name)
                self._beat_at = time.monotonic()
            return true()

        return eventually(beating, what, timeout_s)

    def _report(self, name: str) -> None:
        node, model = self._nodes[name]
        # An equal report would change nothing, and so be no new one.
        idle_s = 0 if name in self._busy else 7200 + int(time.monotonic() - self._began)
        more = {"holders": [holder(name, LAB)], "idleSeconds": idle_s}
        device = gpu(0, f"GPU-{node}", model=model, total=GFD[model][1], **more)
        write_report(self.api, gpu_node(node, [device]))

    def pods(self) -> set[str]:
        """The pods that exist and are not on their way out."""
        found = [each["metadata"] for each in self.api.items(PODS)]
        return {each["name"] for each in found if "deletionTimestamp" not in each}

    def warned(self) -> dict[str, str]:
        """The times of evictions by pod."""
        found = [each["metadata"] for each in self.api.items(PODS)]
        return {each["name"]: each["annotations"][AT] for each in found if AT in each.get("annotations", {})}

    def events(self, reason: str) -> set[str]:
        """The pods with an Event of this reason."""
        path = f"/apis/events.k8s.io/v1/namespaces/{LAB}/events"
        found = self.api.items(path, fieldSelector=f"reason={reason}")
        return {each["regarding"]["name"] for each in found}

    def recorded(self) -> int:
        """The number of pods in the record of evictions."""
        found = self.api.items(LEASES, fieldSelector=f"metadata.name={LEASE}")
        return sum(
            len(json.loads(each["metadata"].get("annotations", {}).get(RECORD, "{}"))) for each in found
        )


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with running_reader(tmp_path_factory) as reader:
        yield reader


@pytest.fixture(scope="module")
def lab(reader: Reader) -> Lab:
    """Idle pods, of which `held` has the most valuable GPU and a budget, and a pod that computes."""
    lab = Lab(Installation(reader.cluster))
    for name in IDLE:
        lab.add(name, "H100-80GB" if name == "held" else "T4", labels={"app": name})
    lab.add("busy")
    lab.compute("busy")
    budget: Json = {"minAvailable": 1, "selector": {"matchLabels": {"app": "held"}}}
    lab.api.create(BUDGETS, {"metadata": {"name": "held"}, "spec": budget})
    return lab


def test_the_page_on_idle_gpus(reader: Reader, lab: Lab) -> None:
    find, label, dry_run, events, evict, keep, stop = blocks(PAGE.read_text(), "sh")
    # No agent has reported yet; a note has the number of these pods.
    assert LAB not in reader.run_block(find), "no pod has run for half an hour"
    reader.run_block(label)
    reader.run_block(dry_run)
    config = reader.checkout / "my-cluster" / "extender.yaml"
    text = config.read_text()
    for figure, short in SHORT.items():
        assert figure in text
        text = text.replace(figure, short)
    config.write_text(text)
    with an_extender(reader):
        lab.eventually(lambda: lab.events("GPUReclaimDryRun") == {*IDLE}, "the dry run names each idle pod")
    assert len(re.findall("GPUReclaimDryRun", reader.run_block(events))) >= len(IDLE)
    table = reader.run_block(f"{find.strip()} --config my-cluster/extender.yaml -n {LAB}")
    first, *others = (line.split()[1] for line in table.splitlines()[1 : 1 + len(IDLE)])
    assert (first, {*others}) == ("held", {*IDLE} - {"held"})
    assert (lab.warned(), lab.pods()) == ({}, {*IDLE, "busy"})

    # However slow the machine is, these are not evicted before they get out.
    lab.silence("keep", "woken")
    reader.run_block(evict)
    lab.eventually(lambda: lab.warned().keys() == {*IDLE}, "each idle pod is warned")
    reader.names["POD"] = "keep"
    assert lab.warned()["one"] in reader.run_block(keep)
    lab.compute("woken")
    times = lab.warned()
    lab.installation.active().containers["extender"].kill()
    lab.eventually(lambda: not {"keep", "woken"} & lab.warned().keys(), "two warnings ended")
    assert lab.warned().items() <= times.items(), "its successor keeps the other times"
    # Only a report counts that is a minute newer than the warning, or than the successor's knowledge of it.
    left = lab.eventually(lambda: len(lab.pods()) == 5 and lab.pods(), "two pods are evicted", 120.0)
    assert {"busy", "held", "keep", "woken"} < left
    # The Event about `keep` may have died with the extender.
    assert {"woken"} <= lab.events("GPUReclaimCancelled") <= {"keep", "woken"}
    assert lab.installation.metric("gpu_extender_reclaims_total", result="budget") >= 1
    lab.eventually(
        lambda: lab.installation.metric("gpu_extender_reclaims_total", result="limited") >= 1, "one waits"
    )
    assert (lab.pods(), lab.recorded()) == (left, 2)

    without = {"metadata": {"annotations": {RECORD: None}}}
    lab.api.patch(f"{LEASES}/{LEASE}", without)
    lab.api.delete(f"{BUDGETS}/held")
    lab.eventually(lambda: lab.pods() == {"busy", "keep", "woken"}, "the others follow")
    reader.run_block(stop)


@contextmanager
def an_extender(reader: Reader) -> Iterator[None]:
    """A further extender with the configuration in the checkout, without another rollout."""
    ports = " ".join(f"--{name} 127.0.0.1:0" for name in ("listen", "health-listen", "inspect-listen"))
    kubeconfig = "--kubeconfig .kube/config --config my-cluster/extender.yaml"
    with reader.start(f"scheduler-ext serve {kubeconfig} {ports}") as process:
        try:
            yield
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def extender(lab: Lab) -> Api:
    """The API as the extender."""
    return lab.api.as_account("gpu-scheduler", "gpu-scheduler-extender")


WARNING: Json = {"metadata": {"annotations": {AT: "2026-01-01T00:00:00Z"}}}
OPTED_OUT = "may warn pods only if their label"


@pytest.mark.parametrize(
    ("namespace", "label", "change", "said"),
    [
        pytest.param(None, "true", WARNING, "", id="warns by the pod's own label"),
        pytest.param("true", None, WARNING, "", id="warns by that of its namespace"),
        pytest.param("true", "false", WARNING, OPTED_OUT, id="does not warn where it opted out"),
        pytest.param("false", "true", WARNING, OPTED_OUT, id="does not warn where its namespace forbids it"),
        pytest.param(None, None, WARNING, OPTED_OUT, id="does not warn where neither opted in"),
        pytest.param(
            "true",
            "true",
            {"metadata": {"annotations": {AT: "x"}, "labels": {"a": "b"}}},
            "may change one annotation of a Pod",
            id="does not label it beside",
        ),
    ],
)
def test_the_extender(
    lab: Lab, extender: Api, namespace: str | None, label: str | None, change: Json, said: str
) -> None:
    lab.api.patch(f"/api/v1/namespaces/{LAB}", {"metadata": {"labels": {RECLAIM: namespace}}})
    lab.api.patch(f"{PODS}/busy", {"metadata": {"labels": {RECLAIM: label}, "annotations": {AT: None}}})
    refusal = extender.refusal("PATCH", f"{PODS}/busy", change, MERGE)
    assert (said in refusal) if said else refusal == ""


BY_UID = {"preconditions": {"uid": "u"}}


@pytest.mark.parametrize(
    ("where", "allowed", "options"),
    [
        pytest.param(LAB, "true", {}, id="any pod of the name"),
        pytest.param(LAB, "true", BY_UID | {"gracePeriodSeconds": 0}, id="at once"),
        pytest.param("kube-system", "true", BY_UID, id="a pod of the cluster"),
        pytest.param(LAB, "false", BY_UID, id="a pod of a namespace that forbids it"),
    ],
)
def test_the_extender_does_not_evict(
    lab: Lab, extender: Api, where: str, allowed: str, options: Json
) -> None:
    lab.api.patch(f"/api/v1/namespaces/{LAB}", {"metadata": {"labels": {RECLAIM: allowed}}})
    body = {"metadata": {"name": "busy", "namespace": where}, "deleteOptions": options}
    path = f"/api/v1/namespaces/{where}/pods/busy/eviction"
    # The API server's admission learns of the label from a watch. Until then, the uid keeps the pod.
    eventually(
        lambda: "may evict a Pod by its uid" in extender.refusal("POST", path, body), "the policy refuses it"
    )
