"""The files of config/: the extender's configurations and kube-scheduler's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from scheduler_ext.core.gpu.mig_profile import resource_from_profile
from scheduler_ext.core.gpu.mig_tables import FALLBACK_PROFILES
from scheduler_ext.core.request.resource_names import DEFAULT_SHARE, DEFAULT_WHOLE
from scheduler_ext.core.scores import DEFAULT_WEIGHTS
from scheduler_ext.explain.explain import explain
from scheduler_ext.main import main
from scheduler_ext.sources.clusterstate import file_state
from scheduler_ext.wire.config import Configuration, KernelConfiguration, feature_sections, load_config
from scheduler_ext.wire.objects import read_pods
from scheduler_ext.wire.times import duration_s

CONFIG = Path(__file__).parents[1] / "config"
SHARES = CONFIG.parent / "manifests" / "components" / "shares"
EXTENDER_CONFIGS = [CONFIG / "default.yaml", *sorted((CONFIG / "policies").glob("*.yaml"))]
SHARE_POD = b"""
apiVersion: v1
kind: Pod
metadata: {name: share}
spec:
  containers: [{name: main, resources: {limits: {gpu.scheduler-ext.io/memory-mib: "8192"}}}]
"""


def defaults() -> dict[str, Any]:
    """A file with all values of the default configuration."""
    spelled: dict[str, Any] = msgspec.to_builtins(KernelConfiguration())
    spelled["score"]["weights"] = dict(DEFAULT_WEIGHTS)
    for section in feature_sections():
        *above, name = section.key.split(".")
        place = spelled
        for part in above:
            place = place[part]
        place[name] = msgspec.to_builtins(section())
    return spelled


@pytest.mark.parametrize(
    "path",
    [*EXTENDER_CONFIGS, SHARES / "extender.yaml"],
    ids=lambda path: f"check-config accepts {path.name} of {path.parent.name}",
)
def test_shipped_configurations_are_accepted(path: Path) -> None:
    result = CliRunner().invoke(main, ["check-config", str(path)])
    assert (result.exit_code, result.output) == (0, f"{path}: ok\n")


def test_default_yaml_equals_the_defaults_key_by_key() -> None:
    shipped = yaml.safe_load((CONFIG / "default.yaml").read_bytes())
    assert shipped == defaults()


@pytest.mark.parametrize(
    ("policy", "best"),
    [
        pytest.param("binpack", "share-l40s-01", id="binpack fills the GPU that is nearly full"),
        pytest.param("spread", "share-l4-02", id="spread takes the node that is empty"),
    ],
)
def test_policies_match_their_names(policy: str, best: str) -> None:
    config = load_config((CONFIG / "policies" / f"{policy}.yaml").read_bytes())
    state = file_state(CONFIG / "sample-inventory.yaml", config.resource_names())
    assert explain(read_pods(SHARE_POD)[0], state, config)["best"] == [best]


KUBE_SCHEDULER: dict[str, Any] = yaml.safe_load((CONFIG / "kube-scheduler.yaml").read_bytes())
(EXTENDER,) = KUBE_SCHEDULER["extenders"]
MANAGED = [entry["name"] for entry in EXTENDER["managedResources"]]


def test_kube_scheduler_reads_v1_and_has_the_profile_pods_name() -> None:
    assert KUBE_SCHEDULER["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert KUBE_SCHEDULER["kind"] == "KubeSchedulerConfiguration"
    assert [profile["schedulerName"] for profile in KUBE_SCHEDULER["profiles"]] == ["gpu-scheduler"]
    assert Configuration().scheduler_names == ["gpu-scheduler"]


def test_no_pod_is_evicted_before_the_extender_was_asked() -> None:
    """kube-scheduler's own preemption is on, and would empty nodes that the extender refuses."""
    (profile,) = KUBE_SCHEDULER["profiles"]
    assert profile["plugins"].keys() == {"multiPoint"}
    assert {each["name"] for each in profile["pluginConfig"]} == {"InterPodAffinity", "PodTopologySpread"}
    assert EXTENDER["preemptVerb"] == "preempt"


def test_leadership_has_a_lease_of_its_own() -> None:
    election = KUBE_SCHEDULER["leaderElection"]
    assert election["leaderElect"] is True
    assert election["resourceName"] not in ("", "kube-scheduler")


def test_the_extender_entry_is_as_the_server_needs_it() -> None:
    assert {key: value for key, value in EXTENDER.items() if key != "managedResources"} == {
        "urlPrefix": "http://127.0.0.1:8888",
        "filterVerb": "filter/best",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": 200,
        "nodeCacheCapable": True,
        "httpTimeout": "5s",
        "ignorable": False,
    }


def test_kube_scheduler_waits_longer_than_we_decide() -> None:
    deadline_s = duration_s("decisionDeadline", Configuration().server.decision_deadline, 0, 60)
    assert duration_s("httpTimeout", EXTENDER["httpTimeout"], 0, 60) > deadline_s


def test_kube_scheduler_waits_longer_than_a_binding_may_take() -> None:
    (extender,) = yaml.safe_load((SHARES / "kube-scheduler.yaml").read_bytes())["extenders"]
    deadline_s = duration_s(
        "bind.deadline", load_config((SHARES / "extender.yaml").read_bytes()).bind.deadline, 0, 60
    )
    assert duration_s("httpTimeout", extender["httpTimeout"], 0, 60) > deadline_s


def test_managed_resources_cover_the_default_names() -> None:
    assert set(MANAGED) >= {*DEFAULT_WHOLE, DEFAULT_SHARE}


def test_managed_resources_cover_every_mig_profile_of_the_table_shared_or_not() -> None:
    known = {
        resource_from_profile(profile.name)
        for _, profiles in FALLBACK_PROFILES.values()
        for profile in profiles
    }
    assert {name for name in MANAGED if "/mig-" in name} == known | {f"{name}.shared" for name in known}


def test_managed_resources_name_nothing_twice_and_leave_counting_to_kube_scheduler() -> None:
    assert len(MANAGED) == len(set(MANAGED))
    assert all(entry.keys() == {"name"} for entry in EXTENDER["managedResources"])
