"""The component shares follows the policy, and the policy finds violations."""

from __future__ import annotations

import re

import pytest
import yaml

from scheduler_ext.core.cache.intent import MAX_INTENTS
from scheduler_ext.core.request.quantity import MAX_COUNT
from scheduler_ext.core.request.request import MAX_SHARES
from scheduler_ext.core.request.resource_names import DEFAULT_SHARE
from scheduler_ext.wire.pod.cached_pod import DEVICES_PREFIX
from tests.manifests.objects import Json, of_kind
from tests.manifests.policy import violations
from tests.manifests.shipped import REPOSITORY, SHARES_CDI, shares
from tests.manifests.test_policy import (
    Change,
    config_map,
    in_configuration,
    in_extender,
    pod_spec,
    without_kind,
    without_object,
)

SAMPLES = REPOSITORY / "manifests" / "samples"
_WITHOUT = re.compile(r"gpu\.scheduler-ext\.io/memory-mib|devices\.gpu\.scheduler-ext\.io/")


def test_shares_keep_it() -> None:
    assert violations(shares()) == []


def test_shares_by_cdi_keep_it() -> None:
    assert violations(shares(SHARES_CDI)) == []


def in_policy(name: str, **fields: object) -> Change:
    def apply(objects: list[Json]) -> None:
        kinds = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
        found = [each for each in of_kind(objects, *kinds) if each["metadata"]["name"] == name]
        for each in found:
            each["spec"].update(fields)
        assert found

    return apply


def without_rule(name: str, number: int) -> Change:
    def drop(objects: list[Json]) -> None:
        (policy,) = [
            each for each in of_kind(objects, "ValidatingAdmissionPolicy") if each["metadata"]["name"] == name
        ]
        del policy["spec"]["matchConstraints"]["resourceRules"][number]

    return drop


def in_ours(**sections: object) -> Change:
    """Change the extender's configuration inside its ConfigMap."""

    def apply(objects: list[Json]) -> None:
        data = config_map(objects)["data"]
        data["extender.yaml"] = yaml.safe_dump(yaml.safe_load(data["extender.yaml"]) | sections)

    return apply


def without_sidecar(objects: list[Json]) -> None:
    containers = pod_spec(objects)["containers"]
    containers[:] = [each for each in containers if each["name"] != "extender"]


def other_profile(configuration: Json) -> None:
    configuration["profiles"][0]["schedulerName"] = "other"


BROKEN: list[tuple[str, Change, str]] = [
    (
        "an extender that binds and may fail",
        in_extender(ignorable=True),
        "ignorable with bindVerb: a binding that fails would be tried once more without a device",
    ),
    (
        "an extender that is told to bind and may not",
        in_extender(bindVerb=None),
        "bind.enabled without bindVerb",
    ),
    (
        "an extender that is asked to bind and does not",
        lambda o: config_map(o)["data"].update({"extender.yaml": "kind: ExtenderConfiguration"}),
        "bindVerb without bind.enabled",
    ),
    ("no preempt verb", in_extender(preemptVerb=None), "preemptVerb is missing"),
    (
        "a Node's status that anything may be written to",
        without_object("gpu-scheduler-capacity-only"),
        "writes nodes/status, and no policy says which",
    ),
    (
        "assignments by anybody",
        without_object("gpu-scheduler-assignment"),
        "no policy says who may assign GPUs by CREATE of pods/*",
    ),
    (
        "assignments by the older way",
        without_rule("gpu-scheduler-assignment", 1),
        "no policy says who may assign GPUs by CREATE of bindings",
    ),
    (
        "pods that nothing is given to",
        without_kind("MutatingAdmissionPolicyBinding"),
        "MutatingAdmissionPolicy gpu-scheduler-shares: nothing binds it",
    ),
    (
        "pods that pass where giving fails",
        in_policy("gpu-scheduler-shares", failurePolicy="Ignore"),
        "MutatingAdmissionPolicy gpu-scheduler-shares: lets pass what it fails on",
    ),
    (
        "containers that come later",
        in_policy("gpu-scheduler-shares", reinvocationPolicy="Never"),
        "what comes after it would be left as it is",
    ),
    (
        "binds that take longer than anybody waits",
        in_ours(bind={"enabled": True, "deadline": "30s"}),
        "bind.deadline 30s is not below httpTimeout, 5s",
    ),
    (
        "binds that take as long as anybody waits",
        in_extender(httpTimeout="4s"),
        "bind.deadline 4s is not below httpTimeout, 4s",
    ),
    (
        "decisions that take longer than anybody waits",
        in_extender(httpTimeout="1500ms"),
        "server.decisionDeadline 2s is not below httpTimeout, 1.5s",
    ),
    (
        "shares of a name that the policies do not look for",
        in_ours(resources={"memoryShare": "example.com/x"}),
        "MutatingAdmissionPolicy gpu-scheduler-shares: knows shares as 'gpu.scheduler-ext.io/memory-mib',"
        " not as example.com/x",
    ),
    (
        "shares that kube-scheduler does not ask about",
        in_ours(resources={"memoryShare": "example.com/x"}),
        "example.com/x is not in managedResources",
    ),
    (
        "pods of another scheduler than the extender's",
        in_ours(schedulerNames=["other"]),
        "schedulerNames ['other'] are not the profiles ['gpu-scheduler']",
    ),
    (
        "an extender that is asked on loopback and is elsewhere",
        without_sidecar,
        "Deployment gpu-scheduler: asks an extender on loopback, and has none",
    ),
    (
        "another scheduler than the policies'",
        in_configuration(other_profile),
        "gpu-scheduler-share-pods: schedulers ['gpu-scheduler'] are not the profiles ['other']",
    ),
]


@pytest.mark.parametrize(
    ("change", "said"), [pytest.param(change, said, id=name) for name, change, said in BROKEN]
)
def test_notices(change: Change, said: str) -> None:
    objects = shares()
    change(objects)
    assert [broken for broken in violations(objects) if said in broken]


def test_the_policies_name_the_resource_and_the_annotation_of_the_code() -> None:
    policies = of_kind(shares(SHARES_CDI), "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
    named = {found for policy in policies for found in _WITHOUT.findall(yaml.safe_dump(policy, width=10_000))}
    assert named == {DEFAULT_SHARE, DEVICES_PREFIX}


def test_a_reservation_has_room_for_every_pod_the_extender_takes() -> None:
    (crd,) = [
        each
        for each in of_kind(shares(), "CustomResourceDefinition")
        if each["spec"]["names"]["kind"] == "GPUReservation"
    ]
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert schema["properties"]["intents"]["maxItems"] == MAX_INTENTS
    pod = schema["properties"]["intents"]["items"]["properties"]["pod"]["properties"]
    assert pod["shares"]["maxItems"] == MAX_SHARES
    assert pod["shares"]["items"]["properties"]["beside"]["items"]["maximum"] == MAX_SHARES - 1
    assert pod["shares"]["items"]["properties"]["memoryMiB"]["maximum"] == MAX_COUNT
    assert pod["units"]["items"]["properties"]["count"]["maximum"] == MAX_COUNT


def test_the_samples_are_about_the_resource_of_the_code() -> None:
    quota, limits = (
        yaml.safe_load((SAMPLES / f"{name}.yaml").read_bytes()) for name in ("quota", "limit-range")
    )
    assert list(quota["spec"]["hard"]) == [f"requests.{DEFAULT_SHARE}"]
    assert [list(part) for part in limits["spec"]["limits"][0].values() if isinstance(part, dict)] == [
        [DEFAULT_SHARE]
    ] * 3
