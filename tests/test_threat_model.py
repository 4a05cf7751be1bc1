"""Every sentence in the table of docs/concepts/threat-model.md has tests, or is listed as untestable."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from prometheus_client.parser import text_string_to_metric_families

from scheduler_ext.core.cycle.cycle import FITS, filter_nodes
from scheduler_ext.core.cycle.policy import Policy
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.request import GpuRequest
from tests.kube_objects import pod
from tests.pages import ROOT, SAMPLE, rows
from tests.server.process.product import Product, config_file
from tests.server.process.server_process import get
from tests.strategies import clusters, several_requests, snapshot_of

PAGE = ROOT / "docs" / "concepts" / "threat-model.md"
POLICY = "tests/manifests/test_policy.py::"
IDENTITIES = "tests/e2e/test_identities.py::"
HERE = "tests/test_threat_model.py::"
# The beginning of each sentence, and the tests that fail if it is false.
HELD: dict[str, tuple[str, ...]] = {
    "The API listens on loopback beside kube-scheduler": (
        f"{POLICY}test_notices",
        "tests/e2e/test_documentation.py::test_standalone_refuses_requests_without_a_certificate",
    ),
    "A NetworkPolicy admits only Prometheus": (
        f"{POLICY}test_notices",
        "tests/manifests/test_metrics_access.py::test_only_prometheus_in_a_labelled_namespace_is_let_in",
    ),
    "`/bind` is off unless shares are installed": (f"{HERE}test_nothing_is_bound_without_shares",),
    "It binds only waiting pods of the schedulers": (
        "tests/binding/test_bind.py::test_a_pod_that_is_not_to_be_bound_is_refused",
        "tests/binding/test_bind.py::test_where_nothing_fits_nothing_is_asked",
        "tests/binding/test_bind.py::test_the_fence",
    ),
    "kube-scheduler with `enableHTTPS` and no CA": (f"{POLICY}test_notices",),
    "An admission policy lets an agent's token": (
        "tests/e2e/agents/test_agent_policy.py::test_an_agent_reports_on_its_own_node",
        "tests/e2e/agents/test_agent_policy.py::test_an_agent_does_not_report_on_another_node",
        "tests/e2e/agents/test_agent_policy.py::test_a_token_of_no_pod_reports_on_no_node",
    ),
    "The CRD and the extender refuse amounts": (
        "tests/e2e/agents/test_crd_refusals.py::test_both_refuse_what_cannot_be_and_name_it",
        "tests/cluster/test_inventory_handlers.py::test_one_that_contradicts_itself_is_refused_and_the_last_good_one_ages",
    ),
    "The allocatable of the node caps": ("tests/core/node/test_caps.py::test_a_report_is_only_ever_lowered",),
    "Annotations only restrict": (f"{HERE}test_annotations_only_restrict",),
    "Where shares are installed, an admission policy": (
        "tests/e2e/shares/test_share_assignment.py::test_no_other_user_binds_with",
        "tests/e2e/shares/test_share_assignment.py::test_no_user_afterwards",
        "tests/e2e/shares/test_share_assignment.py::test_no_user_assigns_to_a_waiting_pod",
    ),
    "Excess use is measured": (
        "tests/core/node/test_drift.py::test_use_beyond_the_holdings",
        "tests/core/gpu/test_foreign_use.py::test_remaining_room_for_shares",
        "tests/cluster/events/test_events.py::test_memory_used_by_unknown_processes_is_an_event_of_its_node",
    ),
    "A limit for bodies (413)": (
        "tests/server/test_api_routes.py::test_a_refusal_is_one_short_json_error_one_short_log_line_and_one_count",
        "tests/server/http/test_slow_clients.py::test_slow_clients_hold_no_thread",
        "tests/server/http/test_slow_clients.py::test_unfinished_bodies_together_are_bounded",
        "tests/server/http/test_held_bytes.py::test_unread_replies_are_held_up_to_a_bound",
        "tests/server/http/test_held_bytes.py::test_connections_stay_at_their_limit_and_probes_are_answered",
        "tests/wire/test_yaml_values.py::test_bombs_are_refused_before_they_are_built",
        "tests/server/process/test_serve_hostile.py::test_others_are_answered_while_hostile_bodies_are_read",
    ),
    "`/explain`, `/pods`, the page and `/debug/*`": (
        f"{POLICY}test_notices",
        "tests/e2e/test_port_forward.py::test_the_rights_that_a_port_forward_needs",
        "tests/server/test_inspect_routes.py::test_only_this_host_is_answered_for",
        "tests/server/test_inspect_routes.py::test_other_pages_get_nothing",
        "tests/server/test_api_routes.py::test_no_web_page_is_a_kube_scheduler",
        "tests/server/test_inspect_routes.py::test_no_pod_of_another_namespace_is_named",
    ),
    "Metrics have namespaces, nodes and models, and the names of at most 50 waiting pods": (
        f"{HERE}test_metrics_name_only_pods_that_wait",
        "tests/manifests/test_metrics_access.py::test_only_prometheus_in_a_labelled_namespace_is_let_in",
    ),
    "Control and direction characters are escaped": (
        "tests/cli/test_output.py::test_text_of_other_authors_does_not_control_the_terminal",
        "tests/page/test_content.py::test_hostile_names_are_text_and_nothing_else",
        "tests/page/test_content.py::test_the_policy_stops_what_does_get_in",
        "tests/page/test_content.py::test_no_asset_comes_from_elsewhere",
    ),
    "Records of pods have only names": (
        "tests/extender/test_record.py::test_the_pod_is_kept_without_what_no_decision_reads",
        "tests/explain/test_replay.py::test_the_file_has_only_data_that_decisions_read",
    ),
    "`gpu-scheduler-extender`, which has none": (
        f"{IDENTITIES}test_each_container_has_its_own_identity",
        "tests/manifests/test_rights.py::test_the_extender_has_nothing_of_kube_schedulers",
    ),
    "It lists and watches": (
        f"{IDENTITIES}test_the_extender",
        "tests/manifests/test_rights.py::test_the_rights",
    ),
    "In the standalone overlay, the extender has its own Lease": (
        "tests/manifests/test_rights.py::test_the_rights",
    ),
    "It creates Events": (
        f"{IDENTITIES}test_a_policy_holds_the_extender_to_one_annotation_and_one_label",
        "tests/e2e/agents/test_agent_policy.py::test_the_extender_changes_nothing_else_of_a_node",
        "tests/e2e/agents/test_agent_policy.py::test_the_extender_does_not",
        "tests/e2e/agents/test_agent_policy.py::test_the_extender_labels_a_node_once_and_may_still_annotate_it",
    ),
    "A stolen token can bring the agent": (
        "tests/e2e/agents/test_agent_policy.py::test_the_extender_does_not",
    ),
    "With shares it also binds": (
        f"{IDENTITIES}test_the_extender_of_shares",
        "tests/e2e/shares/test_share_capacity.py::test_the_extender_changes_nothing_else_of_a_nodes_status",
    ),
    "With the component `dra-health`": (
        "tests/e2e/dra/test_device_health.py::test_a_rule_of_another_is_left_alone",
        "tests/manifests/test_rights.py::test_the_rights",
    ),
    "With the component `placeholders`": (
        "tests/manifests/test_rights.py::test_the_rights",
        "tests/e2e/autoscaler_config/test_placeholders.py::test_the_namespace_admits_little",
    ),
    "With the component `idle-reclaim` it lists Namespaces": (
        "tests/e2e/idle/test_idle_page.py::test_the_extender_changes_nothing_else_of_a_pod",
        "tests/e2e/idle/test_idle_page.py::test_the_extender_warns_pods_that_opted_in",
        "tests/e2e/idle/test_idle_page.py::test_the_extender_does_not_evict",
        "tests/e2e/idle/test_idle_page.py::test_the_extender_evicts_no_pod_of_a_namespace_that_forbids_it",
        "tests/manifests/test_rights.py::test_the_rights",
    ),
    "With `idle-reclaim`, a stolen token evicts": (
        "tests/e2e/idle/test_idle_page.py::test_the_extender_evicts_no_pod_of_a_namespace_that_forbids_it",
        "tests/cluster/reclaim/test_reclaim_faults.py::test_a_pod_whose_budget_forbids_it_waits_and_the_others_go",
    ),
    "With the component `gangs` it removes one scheduling gate": (
        "tests/e2e/gangs/test_gate_policy.py::test_the_extender_may_remove_the_gate",
        "tests/e2e/gangs/test_gate_policy.py::test_the_extender_may_change_nothing_else",
        "tests/e2e/gangs/test_gate_policy.py::test_the_extender_evicts_no_pod_of_the_system",
        "tests/manifests/test_rights.py::test_the_rights",
    ),
    "With `gangs`, a stolen token evicts": (
        "tests/e2e/gangs/test_gate_policy.py::test_the_extender_evicts_for_a_gang_where_it_may_not_reclaim",
    ),
    "It reads no Secret and no other ConfigMap": (
        f"{IDENTITIES}test_the_extender_does_not",
        f"{IDENTITIES}test_the_extender_of_shares_does_not",
    ),
    "Its container mounts no other token": (f"{POLICY}test_notices",),
    "Beside kube-scheduler, the token is valid": (
        f"{IDENTITIES}test_the_extenders_token_is_replaced_as_documented",
    ),
    "In the standalone overlay, the token expires": (f"{POLICY}test_the_standalone_extender_keeps_it",),
    "With shares, a stolen token binds": (f"{IDENTITIES}test_a_stolen_token_binds_what_waits",),
    "`gpu-scheduler`, bound to Kubernetes' own": (f"{IDENTITIES}test_kube_scheduler",),
    "Its token lives for an hour": (f"{IDENTITIES}test_kube_schedulers_token_ends_with_its_pod",),
    "It patches no Node": (f"{IDENTITIES}test_kube_scheduler_does_not",),
    "Like any kube-scheduler": (f"{IDENTITIES}test_kube_scheduler",),
    "Its own GPUNode": ("tests/e2e/agents/test_agent_policy.py::test_an_agent_does_not",),
    "No rights on Pods": ("tests/e2e/agents/test_agent_policy.py::test_an_agent_has_no_other_right",),
    "Its namespace is privileged": (f"{POLICY}test_notices",),
    "One Lease decides which extender": (
        "tests/cluster/events/test_event_recorder.py::test_a_standby_writes_nothing",
        "tests/cluster/test_binder.py::test_two_extenders_never_bind_beyond_what_there_is",
        "tests/e2e/shares/test_shares_two_extenders.py::test_both_bind_and_nothing_is_promised_twice",
    ),
    "Ages use the API server's clock": (
        "tests/cluster/test_live.py::test_a_clock_that_is_set_back_ages_no_report",
        "tests/cluster/test_inventory_handlers.py::test_the_age_of_a_report_is_by_the_servers_clock",
    ),
    "pip installs only files with the pinned hashes": (
        "tests/test_locks.py::test_nothing_is_installed_without_hashes",
    ),
    "The image names its bases by digest": (
        "tests/image/test_make_image.py::test_the_dockerfile_names_both_bases_by_digest_and_builds_on_nothing_else",
        "tests/image/test_image.py::test_two_builds_of_a_commit_have_one_digest",
    ),
    "The release workflow signs the image": (
        "tests/test_workflows.py::test_a_release_signs_the_image_and_the_chart_by_digest",
        "tests/test_workflows.py::test_every_action_is_pinned_by_commit_with_its_version",
    ),
}
# Statements that no test can show: about the rest of the cluster, or about a limit.
SAID_ONLY = (
    "A pod on the host network",
    "kube-scheduler itself may bind",
    "An attacker who controls a node",
    "A report of less memory in use",
    "A pod may restrict itself",
    "Shares are promised, not enforced",
    "Neighbours may run out",
    "An account that may create thousands",
    "If the network plugin does not enforce",
    "Logs have names and reasons",
    "Names themselves",
    "Even without any right",
    "An attacker who takes over",
    "A package or a base that was malicious",
)


def sentences() -> Iterator[str]:
    """The second and third column of the table, without links."""
    table = PAGE.read_text().partition("## Threats")[2]
    for _, *cells in rows(table):
        for cell in cells:
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell)
            yield from (each for each in re.split(r"(?<=\.)\s+(?=[A-Z`])", plain) if each)


def test_every_sentence_is_held_or_said_to_be_words_only() -> None:
    known = [*HELD, *SAID_ONLY]
    found = {each: [key for key in known if each.startswith(key)] for each in sentences()}
    assert {each: keys for each, keys in found.items() if len(keys) != 1} == {}
    assert {key for (key,) in found.values()} == set(known)


@cache
def functions_of(file: Path) -> frozenset[str]:
    """The names of a file's tests, those in classes too."""
    tree = ast.walk(ast.parse(file.read_text()))
    return frozenset(each.name for each in tree if isinstance(each, ast.FunctionDef))


@pytest.mark.parametrize("test", sorted({test for held in HELD.values() for test in held}))
def test_the_test_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert name in functions_of(ROOT / file)


def test_nothing_is_bound_without_shares() -> None:
    """A complete request gets instructions for a change."""
    args = {"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "h100-02"}
    with Product(inventory=SAMPLE).ready() as server:
        reply = server.post("bind", json.dumps(args).encode())
    assert "this extender does not bind" in json.loads(reply.body)["Error"]


@given(clusters(), several_requests)
def test_annotations_only_restrict(cluster: Sequence[NodeInfo], asked: list[GpuRequest]) -> None:
    """A pod that fits with its annotations fits without them."""
    snapshot = snapshot_of(cluster)
    for request in asked:
        plain = replace(GpuRequest(), **{key: getattr(request, key) for key in OF_THE_POD})
        fits = filter_nodes(request, snapshot, Policy()).verdict == FITS
        assert not (fits & (filter_nodes(plain, snapshot, Policy()).verdict != FITS)).any()


# A pod's request by resources, its priority and its processors; everything else comes from annotations.
OF_THE_POD = ("units", "shares", "priority", "cpu_milli", "by_container")


@pytest.mark.process
@pytest.mark.parametrize(
    ("most", "named"),
    [
        pytest.param(0, set(), id="none if so configured"),
        pytest.param(50, {"waits"}, id="those that wait"),
    ],
)
def test_metrics_name_only_pods_that_wait(tmp_path: Path, most: int, named: set[str]) -> None:
    """At the finest level of detail, for a cluster whose pods have GPUs."""
    objects: list[Any] = list(yaml.safe_load_all(SAMPLE.read_bytes()))
    waits = pod("waits", {"nvidia.com/gpu": "9"})
    waits["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    names = {each["metadata"]["name"] for each in (*objects, waits) if each["kind"] == "Pod"}
    assert len(names) > 1
    served = tmp_path / "served.yaml"
    served.write_text(yaml.safe_dump_all([*objects, waits]))
    config = config_file(tmp_path, metrics={"detail": "device", "waitingPods": most})
    with Product(inventory=served, config=config).ready() as server:
        text = get(server.health, "/metrics").body.decode()
    values = {
        value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        for value in sample.labels.values()
    }
    assert names & values == named
    assert {"h100-01", "research"} <= values
