"""Idle pods in a running extender: reclaim in its thread, preempt, and the facts about pods."""

from __future__ import annotations

import pytest

from scheduler_ext.cluster.client.retry import Backoff
from scheduler_ext.features.idle.reclaim import reclaimer as reclaimer_module
from scheduler_ext.features.idle.reclaim.reclaimer import Reclaimer
from scheduler_ext.features.idle.serving import IdleServing
from scheduler_ext.features.idle.settings import ReclaimSection
from scheduler_ext.wire.config import Configuration, PreemptionSection
from scheduler_ext.wire.pod_facts import RECLAIM_AT_ANNOTATION
from tests.cluster.api.api_faults import Refuse
from tests.cluster.api.api_paths import NAMESPACES, PODS
from tests.cluster.api.api_requests import lists
from tests.cluster.following import eventually
from tests.cluster.living import Living
from tests.kube_idle import DAY_S, running
from tests.kube_objects import gpu, holder

SOON = ReclaimSection(mode="evict", min_age="1s", warn_for="1s")


@pytest.fixture
def idle(living: Living, monkeypatch: pytest.MonkeyPatch) -> Living:
    """Two pods that have run for a day, of which the first computes nothing and opted in."""
    monkeypatch.setattr(reclaimer_module, "EVERY_S", 0.02)
    monkeypatch.setattr(reclaimer_module, "Backoff", lambda: Backoff(0.01, 0.02))
    for name, idle_s in (("a", 7200), ("b", 0)):
        report(living, name, idle_s)
        labels = {"gpu.scheduler-ext.io/reclaim": "true"}
        living.server.store.put(PODS, running(f"pod-{name}", name, DAY_S, labels=labels, owner="Job/train"))
    config = Configuration(preemption=PreemptionSection(prefer_idle=True)).with_sections(SOON)
    living.configure(config)
    return living


def report(living: Living, name: str, idle_s: int) -> None:
    living.report(name, gpu(0, holders=[holder(f"pod-{name}")], idleSeconds=idle_s))


def warned(living: Living) -> list[str]:
    pods = [each["metadata"] for each in living.server.store.objects(PODS)]
    return [each["name"] for each in pods if RECLAIM_AT_ANNOTATION in (each.get("annotations") or {})]


def test_a_missing_right_is_logged_once_and_tried_again(
    idle: Living, caplog: pytest.LogCaptureFixture
) -> None:
    forbidden = Refuse(403, "Forbidden", "may not list namespaces")
    refusal = idle.server.faults.place(forbidden, lists(NAMESPACES), times=None)
    idle.start()
    counted = idle.loop(Reclaimer).reclaims
    eventually(lambda: counted["failed"] >= 3)
    assert len([each for each in caplog.records if "are not reclaimed" in each.message]) == 1
    refusal.lift()
    eventually(lambda: warned(idle) == ["pod-a"])


def test_preempt_knows_the_idle_pods_of_a_node(idle: Living) -> None:
    idle.start()
    (first,) = (each.goes_first for each in idle.features.features if isinstance(each, IdleServing))
    found = {name: [*first(idle.info(name))] for name in "ab"}
    assert found == {"a": ["uid-pod-a"], "b": []}
