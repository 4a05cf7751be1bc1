"""A real Prometheus scrapes the real server: rules, every panel, and the metrics for a
HorizontalPodAutoscaler.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import yaml

from scheduler_ext.views.listing import inventory_list
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import assemble, read_objects
from tests.cluster.api.api_paths import GPU_NODES, NODES, PODS
from tests.cluster.api.api_server import ApiServer
from tests.extender.preempting import on_share
from tests.kube_idle import running
from tests.kube_objects import gpu, gpu_node, holder, names_body, node, pod
from tests.manifests.objects import of_kind
from tests.monitoring.component import Query, alerts, queries, rules_file
from tests.monitoring.prometheus import Prometheus, needs_prometheus
from tests.monitoring.promql import metrics_in
from tests.monitoring.test_expressions import OTHERS
from tests.pages import ROOT, SAMPLE
from tests.server.process.product import Product, config_file
from tests.server.process.server_process import eventually
from tests.server.process.test_serve_cluster import Following

SAMPLES = ROOT / "manifests" / "samples"
H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
SHARE = "gpu.scheduler-ext.io/memory-mib"
NAMES = ["h100-01", "h100-02", "share-l4-01", "share-l4-02"]
WHOLE = "nvidia.com/gpu"
PARIS = "paris"
COUNTED: Mapping[str, Any] = {
    "spare-gpu-worker": {
        "metadata": {"annotations": {"gpu.scheduler-ext.io/model": "H100"}},
        "spec": {
            "containers": [{"name": "main", "resources": {"limits": {WHOLE: "1"}}}],
            "tolerations": [{"key": WHOLE, "operator": "Exists"}],
        },
    }
}
# These servers bind nothing and lose no watch, and no kube-scheduler or DCGM exporter is scraped.
NOTHING_TO_SHOW = {
    ("Utilization of held GPUs (DCGM)", "{{hostname}}{{Hostname}} GPU {{gpu}} {{cluster}}"),
    ("Queue by state", "{{state}} {{cluster}}"),
    ("Pods pending in kube-scheduler", "{{queue}} {{cluster}}"),
    ("Time to placement (kube-scheduler)", "1 in 100 slower {{cluster}}"),
    ("Containers out of GPU memory", "{{namespace}} {{cluster}}"),
    ("Watch restarts", "{{resource}} {{reason}} {{cluster}}"),
    ("Binds by result", "{{result}} {{cluster}}"),
    ("Binds by result", "conflict: {{kind}} {{cluster}}"),
}

pytestmark = [needs_prometheus, pytest.mark.process]


@pytest.fixture(scope="module")
def api() -> Iterator[ApiServer]:
    """A cluster with a GPU that is held for nothing, a GPU with an unseen pod, shares that are exceeded, and
    a contradictory report."""
    unused = gpu(0, holders=[holder("train")], idleSeconds=7200)
    exceeded = gpu(0, "GPU-share-0") | {"memory": {"totalMiB": 81920, "usedMiB": 9000}}
    with ApiServer() as server:
        server.store.put(GPU_NODES, gpu_node("idle", [unused], sequence=5))
        server.store.put(GPU_NODES, gpu_node("unseen", [gpu(0)]))
        server.store.put(GPU_NODES, gpu_node("share", [exceeded]))
        for name in ("idle", "unseen"):
            server.store.put(NODES, node(name, {WHOLE: "1"}))
        server.store.put(
            NODES, node("share", {SHARE: "72000"}, labels={"gpu.scheduler-ext.io/sharing": "memory"})
        )
        for each in (
            running("train", "idle", 9000),
            pod("late", {WHOLE: "1"}, on="unseen"),
            on_share("chat", 2000, "share", 0),
        ):
            server.store.put(PODS, each)
        yield server


@pytest.fixture(scope="module")
def prometheus(api: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Two extenders on the sample cluster with two pods that have waited for hours, scraped a few times while
    they are asked, and one on a cluster with a label."""
    folder = tmp_path_factory.mktemp("prometheus")
    waiting = [pod(name, {WHOLE: "9"}) for name in ("waiting", "later")]
    for month, each in enumerate(waiting, start=1):
        each["metadata"]["creationTimestamp"] = f"2026-0{month}-01T00:00:00Z"
        owner = {"kind": "Job", "name": "train", "uid": "u", "controller": True}
        each["metadata"]["ownerReferences"] = [owner]
    served = folder / "sample.yaml"
    served.write_text("\n---\n".join((SAMPLE.read_text(), *map(yaml.safe_dump, waiting))))
    config = config_file(
        folder, metrics={"detail": "device", "waitingPods": 1, "schedulableReplicas": COUNTED}
    )
    with (
        Product(inventory=served, config=config) as one,
        Product(inventory=served, config=config) as other,
        Following(api.kubeconfig(folder / "kubeconfig")) as following,
    ):
        targets = {"": [one.ready().health, other.ready().health], PARIS: [following.ready().health]}
        eventually(lambda: following.ready_code() == 200)
        api.store.put(GPU_NODES, gpu_node("idle", [gpu(0)], sequence=4))
        with Prometheus(folder, targets, rules_file()) as running:
            scrapes = (
                "min(count_over_time(gpu_extender_active[1m])) >= 3 and count(gpu_extender_active) == 3 "
                "and count(gpu_extender_reports_refused_total) == 1 and count(ALERTS) > 0 "
                "and count(gpu_extender_schedulable_replicas) == 2"
            )

            def ask() -> None:
                for asked in (pod("one", {"nvidia.com/gpu": "1"}), pod("large", {SHARE: "900000"})):
                    assert one.post("filter", names_body(asked, NAMES)).status == 200
                    assert one.post("prioritize", names_body(asked, NAMES)).status == 200

            def scraped() -> object:
                ask()
                return running.query(scrapes)

            running.eventually(scraped)
            yield running


def without_cluster(found: Sequence[tuple[dict[str, str], float]]) -> list[tuple[dict[str, str], float]]:
    """The values of the cluster that has no label."""
    return [(labels, value) for labels, value in found if "cluster" not in labels]


@pytest.mark.parametrize("query", queries(), ids=lambda query: f"{query.panel}, {query.legend}")
def test_every_panel_shows_something(prometheus: Prometheus, query: Query) -> None:
    found = prometheus.query(query.expression)
    if (query.panel, query.legend) in NOTHING_TO_SHOW:
        assert found == []
        return
    assert found
    for labels, _ in found:
        assert set(re.findall(r"{{(\w+)}}", query.legend)) - {"cluster"} <= labels.keys()


def test_panels_agree_with_the_inventory(prometheus: Prometheus) -> None:
    shown = {query.panel: without_cluster(prometheus.query(query.expression)) for query in queries()}
    config = Configuration()
    infos = assemble(read_objects(SAMPLE.read_bytes()), config.resource_names()).values()
    listed = [device for node in inventory_list(infos, config)["items"] for device in node["devices"]]
    assert shown["GPUs"] == [({}, len(listed))]
    free_mib = sum(
        device["memory"]["freeMiB"] or 0 for device in listed if device["healthy"] and not device["cordoned"]
    )
    assert shown["Free memory"] == [({}, free_mib * 2**20)]
    assert shown["Sick GPUs"] == [({}, 1)]
    sick = {"hostname": "a100-01", "modelName": "NVIDIA A100-SXM4-80GB"}
    assert shown["Sick GPUs by node"] == [(sick, 1.0)]
    assert shown["Ready replicas"] == [({}, 2)]


# One that counts replicas, and those that grow between two queries.
GROWING = ("Ready replicas", "Ages", "Longest wait", "Longest waits")


def test_two_replicas_are_not_two_clusters(prometheus: Prometheus) -> None:
    """A gauge of nodes, GPUs or pods is shown once, although both replicas have it. Counters add up."""
    for query in queries():
        counts = "rate(" in query.text or "increase(" in query.text
        if counts or query.panel in GROWING or metrics_in(query.text) & OTHERS.keys():
            continue
        of_both = prometheus.query(query.chosen(cluster=""))
        (first, _) = prometheus.query('gpu_extender_build_info{cluster=""}')
        alone = re.sub(
            r"(gpu_extender_\w+\{)", rf'\1instance="{first[0]["instance"]}", ', query.chosen(cluster="")
        )
        assert sorted(of_both, key=str) == sorted(prometheus.query(alone), key=str), query.panel


def table(prometheus: Prometheus, title: str) -> dict[tuple[str, ...], dict[str, float]]:
    """The cells of a table by its row's labels, and by the legend of its columns."""
    rows: dict[tuple[str, ...], dict[str, float]] = {}
    for query in (each for each in queries() if each.panel == title):
        for labels, value in prometheus.query(query.expression):
            key = tuple(value for name, value in sorted(labels.items()) if name != "__name__")
            rows.setdefault(key, {})[query.legend] = value
    return rows


def test_the_table_of_nodes_has_one_row_for_each_node_and_model(prometheus: Prometheus) -> None:
    rows = table(prometheus, "Nodes")
    sample = rows["a100-01", "NVIDIA A100-SXM4-80GB"]
    assert (sample["state"], sample["GPUs"], sample["sick"], sample["free"]) == (0, 4, 1, 2)
    assert sample["idle"] == 0
    assert sample["requested"] > 0
    idle = rows[PARIS, "idle", "A100-80GB"]
    assert (idle["GPUs"], idle["free"], idle["in use"], idle["idle"]) == (1, 0, 0, 1)
    assert idle["age of the report"] >= 0
    assert len(rows) == 3 + len(prometheus.query('gpu_extender_node_state{cluster=""}')) / 2


def test_the_table_of_long_waits_has_as_many_pods_as_configured_with_their_reasons(
    prometheus: Prometheus,
) -> None:
    ((labels, seconds),) = prometheus.query(queries_of("Longest waits")[0].expression)
    assert labels == {
        "namespace": "default",
        "pod": "waiting",
        "reason": "Insufficient nvidia.com/gpu per device",
    }
    assert seconds > 3600
    assert prometheus.value(queries_of("Longest wait")[0].chosen(cluster="")) == pytest.approx(
        seconds, abs=60
    )
    assert prometheus.value(queries_of("Waiting pods")[0].chosen(cluster="")) == 2


def queries_of(title: str) -> list[Query]:
    return [query for query in queries() if query.panel == title]


def test_rules_are_evaluated_and_find_their_metrics(prometheus: Prometheus) -> None:
    def states() -> Mapping[str, Any]:
        rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
        return {rule["name"]: rule for rule in rules}

    def true() -> set[str]:
        return {name for name, rule in states().items() if rule["state"] != "inactive"}

    assert states().keys() == alerts().keys()
    prometheus.eventually(lambda: {rule["health"] for rule in states().values()} == {"ok"})
    # How fast this machine answers is no matter of the rules; promtool's tests have the alert about it.
    prometheus.eventually(
        lambda: (
            true() - {"GPUExtenderSlow"}
            == {
                "GPUAutoscalerBlind",
                "GPUExtenderReplicaDown",
                "GPULedgerDrift",
                "GPUPodWaitingBesideFreeGPUs",
                "GPUUnaccountedMemory",
                "GPUUnhealthyDevices",
            }
        )
    )
    (sick,) = states()["GPUUnhealthyDevices"]["alerts"]
    assert sick["labels"]["hostname"] == "a100-01"
    (alone,) = states()["GPUExtenderReplicaDown"]["alerts"]
    assert alone["labels"]["cluster"] == PARIS


def test_alerts_about_reports_can_leave_out_nodes_without_an_agent(prometheus: Prometheus) -> None:
    """Both metrics have the same labels, or the difference would be empty."""
    states = prometheus.query("gpu_extender_inventory_nodes")
    assert len(states) == 9
    assert len(prometheus.query("gpu_extender_inventory_nodes - gpu_extender_nodes_kept_from_agent")) == 9


def adapter_rule(name: str) -> Mapping[str, Any]:
    rules = yaml.safe_load((SAMPLES / "prometheus-adapter.yaml").read_bytes())["externalRules"]
    (rule,) = [each for each in rules if each["name"]["as"] == name]
    assert isinstance(rule, dict)
    return rule


def test_the_adapter_finds_the_metric_that_the_autoscaler_asks() -> None:
    (scaler,) = of_kind(
        list(yaml.safe_load_all((SAMPLES / "scale-on-gpus.yaml").read_bytes())), "HorizontalPodAutoscaler"
    )
    (metric,) = scaler["spec"]["metrics"]
    rule = adapter_rule(metric["external"]["metric"]["name"])
    assert rule["resources"]["overrides"] == {"namespace": {"resource": "namespace"}}


REPLICAS, WAITING, MEMORY = "gpu_schedulable_replicas", "gpu_waiting_pods", "gpu_memory_used_bytes"
SPARE, NOBODY = "gpus_for_workers", 'namespace="nobody"'


@pytest.mark.parametrize(
    ("rule", "matchers", "model", "expected"),
    [
        pytest.param(REPLICAS, 'workload="spare-gpu-worker"', H100, 11.0, id="replicas that fit"),
        pytest.param(WAITING, 'namespace="default",owner_name="train"', H100, 2.0, id="two pods wait"),
        pytest.param(WAITING, 'namespace="default",owner_name="serve"', H100, 0.0, id="none waits"),
        pytest.param("gpu_utilization", "", H100, 0.776, id="five held GPUs, of which one is idle"),
        pytest.param(MEMORY, "", H100, 289_000 * 2**20, id="memory of all nodes"),
        pytest.param(MEMORY, 'hostname="h100-02"', H100, 0.0, id="memory of an empty node"),
        pytest.param(SPARE, NOBODY, H100, 11.0, id="GPUs without any holder"),
        pytest.param(SPARE, 'namespace="research"', H100, 17.0, id="and those of the namespace itself"),
        pytest.param(SPARE, NOBODY, A100, 2.0, id="without sick ones and those with MIG"),
    ],
)
def test_an_autoscaler_learns(
    prometheus: Prometheus, rule: str, matchers: str, model: str, expected: float
) -> None:
    """As prometheus-adapter's documentation on external metrics has it: one query finds the series, and the
    other one is a Go template between << and >>, where LabelMatchers are the selector and the namespace."""
    found = adapter_rule(rule)
    (series,) = {each["__name__"] for each in prometheus.get("series", **{"match[]": found["seriesQuery"]})}
    fields = {"Series": series, "LabelMatchers": matchers, "GroupBy": ""}
    query = re.sub(r"<<\s*\.(\w+)\s*>>", lambda field: fields[field[1]], found["metricsQuery"])
    assert prometheus.value(query.replace(H100, model)) == pytest.approx(expected)


@pytest.mark.parametrize(("namespace", "expected"), [("batch", 11.0), ("research", 17.0)])
def test_keda_learns_of_all_workers_that_would_fit(
    prometheus: Prometheus, namespace: str, expected: float
) -> None:
    (trigger,) = yaml.safe_load((SAMPLES / "keda.yaml").read_bytes())["spec"]["triggers"]
    query = trigger["metadata"]["query"]
    assert 'namespace="batch"' in query
    assert prometheus.query(query.replace('"batch"', f'"{namespace}"')) == [({}, expected)]
