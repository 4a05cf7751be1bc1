"""A real Prometheus scrapes the real server: rules, every panel, and the metrics for a
HorizontalPodAutoscaler.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from scheduler_ext.views.listing import inventory_list
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import assemble, read_objects
from tests.kube_objects import names_body, pod
from tests.manifests.objects import of_kind
from tests.monitoring.component import Query, alerts, queries, rules_file
from tests.monitoring.prometheus import Prometheus, needs_prometheus
from tests.pages import ROOT, SAMPLE
from tests.server.process.product import Product, config_file

SAMPLES = ROOT / "manifests" / "samples"
H100 = "NVIDIA H100 80GB HBM3"
SHARE = "gpu.scheduler-ext.io/memory-mib"
NODES = ["h100-01", "h100-02", "share-l4-01", "share-l4-02"]
# An inventory file has no cluster to watch, to bind in or to write to, and no kube-scheduler or DCGM.
NOTHING_TO_SHOW = {
    ("Pending pods by reason", "{{reason}}"),
    ("GPUs by model", "{{modelName}} allocated on unknown GPUs"),
    ("Idle GPUs", "{{hostname}} {{modelName}}"),
    ("Drift of the ledger", "{{node}}"),
    ("Utilization of held GPUs (DCGM)", "{{hostname}}{{Hostname}} {{gpu}}"),
    ("Pods pending in kube-scheduler", "{{queue}}"),
    ("Time to placement (kube-scheduler)", "p99"),
    ("Ages", "watch of {{resource}}"),
    ("Watch restarts", "{{resource}} {{reason}}"),
    ("Binds by result", "{{result}}"),
    ("Binds by result", "conflict: {{kind}}"),
    ("Nudges, refused reports and cut connections", "reports refused"),
}

pytestmark = [needs_prometheus, pytest.mark.process]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Two extenders on the sample cluster, scraped a few times while they are asked."""
    folder = tmp_path_factory.mktemp("prometheus")
    config = config_file(folder, metrics={"detail": "device"})
    with Product(inventory=SAMPLE, config=config) as one, Product(inventory=SAMPLE, config=config) as other:
        targets = [one.ready().health, other.ready().health]
        with Prometheus(folder, targets, rules_file()) as running:
            scrapes = "min(count_over_time(gpu_extender_active[1m])) >= 3 and count(gpu_extender_active) == 2"

            def ask() -> None:
                for asked in (pod("one", {"nvidia.com/gpu": "1"}), pod("large", {SHARE: "900000"})):
                    assert one.post("filter", names_body(asked, NODES)).status == 200
                    assert one.post("prioritize", names_body(asked, NODES)).status == 200

            def scraped() -> object:
                ask()
                return running.query(scrapes)

            running.eventually(scraped)
            yield running


@pytest.mark.parametrize("query", queries(), ids=lambda query: f"{query.panel}, {query.legend}")
def test_every_panel_shows_something(prometheus: Prometheus, query: Query) -> None:
    found = prometheus.query(query.expression)
    if (query.panel, query.legend) in NOTHING_TO_SHOW:
        assert found == []
        return
    assert found
    for labels, _ in found:
        assert set(re.findall(r"{{(\w+)}}", query.legend)) <= labels.keys()


def test_panels_agree_with_the_inventory(prometheus: Prometheus) -> None:
    shown = {query.panel: prometheus.query(query.expression) for query in queries()}
    config = Configuration()
    infos = assemble(read_objects(SAMPLE.read_bytes()), config.resource_names()).values()
    listed = [device for node in inventory_list(infos, config)["items"] for device in node["devices"]]
    assert shown["GPUs"] == [({}, len(listed))]
    free_mib = sum(
        device["memory"]["freeMiB"] or 0 for device in listed if device["healthy"] and not device["cordoned"]
    )
    assert shown["Free memory"] == [({}, free_mib * 2**20)]
    assert shown["Unhealthy GPUs"] == [({"hostname": "a100-01", "modelName": "NVIDIA A100-SXM4-80GB"}, 1.0)]


def test_two_replicas_are_not_two_clusters(prometheus: Prometheus) -> None:
    (query,) = (each for each in queries() if each.panel == "Free memory")
    both = prometheus.value("sum(gpu_extender_device_memory_free_bytes)")
    assert prometheus.value(query.expression) == both / 2


def test_rules_are_evaluated_and_find_their_metrics(prometheus: Prometheus) -> None:
    def states() -> Mapping[str, Any]:
        rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
        return {rule["name"]: rule for rule in rules}

    prometheus.eventually(
        lambda: (
            {rule["health"] for rule in states().values()} == {"ok"}
            and states()["GPUUnhealthyDevices"]["state"] == "pending"
        )
    )
    assert states().keys() == alerts().keys()
    (sick,) = states()["GPUUnhealthyDevices"]["alerts"]
    assert sick["labels"]["hostname"] == "a100-01"
    # How fast this machine answers is no matter of the rules; promtool's tests have the alert about it.
    assert {name for name, rule in states().items() if rule["state"] != "inactive"} - {"GPUExtenderSlow"} == {
        "GPUAutoscalerBlind",
        "GPUUnaccountedMemory",
        "GPUUnhealthyDevices",
    }


def expanded(rule: Mapping[str, Any], series: str, namespace: str) -> str:
    """The query that prometheus-adapter makes for a HorizontalPodAutoscaler of a namespace, without selector.

    As its documentation on external metrics has it: a Go template between << and >>, where LabelMatchers is
    the namespace, under the label that the rule maps to it.
    """
    (label,) = (
        name for name, each in rule["resources"]["overrides"].items() if each["resource"] == "namespace"
    )
    fields = {"Series": series, "LabelMatchers": f'{label}="{namespace}"', "GroupBy": ""}
    text: str = re.sub(r"<<\s*\.(\w+)\s*>>", lambda found: fields[found[1]], rule["metricsQuery"])
    assert "<<" not in text
    return text


def adapter_rule() -> Mapping[str, Any]:
    (rule,) = yaml.safe_load((SAMPLES / "prometheus-adapter.yaml").read_bytes())["externalRules"]
    assert isinstance(rule, dict)
    return rule


def test_the_adapter_finds_the_metric_that_the_autoscaler_asks() -> None:
    (scaler,) = of_kind(
        list(yaml.safe_load_all((SAMPLES / "scale-on-gpus.yaml").read_bytes())), "HorizontalPodAutoscaler"
    )
    (metric,) = scaler["spec"]["metrics"]
    assert metric["external"]["metric"] == {"name": adapter_rule()["name"]["as"]}


def test_the_adapters_rule_finds_a_series(prometheus: Prometheus) -> None:
    found = prometheus.get("series", **{"match[]": adapter_rule()["seriesQuery"]})
    assert {each["__name__"] for each in found} == {"gpu_extender_gpus_unallocated"}


@pytest.mark.parametrize(
    ("model", "namespace", "expected"),
    [
        pytest.param(H100, "nobody", 11.0, id="GPUs without any holder"),
        pytest.param(H100, "research", 17.0, id="and those that the namespace has itself"),
        pytest.param("NVIDIA A100-SXM4-80GB", "nobody", 2.0, id="without sick ones and those with MIG"),
    ],
)
def test_an_autoscaler_learns_of_spare_gpus(
    prometheus: Prometheus, model: str, namespace: str, expected: float
) -> None:
    query = expanded(adapter_rule(), "gpu_extender_gpus_unallocated", namespace).replace(H100, model)
    assert prometheus.query(query) == [({}, expected)]
