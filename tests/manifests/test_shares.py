"""The component shares names the resources and has the bounds of the code."""

from __future__ import annotations

import re

import yaml

from scheduler_ext.core.cache.intent import MAX_INTENTS
from scheduler_ext.core.request.quantity import MAX_COUNT
from scheduler_ext.core.request.request import MAX_SHARES
from scheduler_ext.core.request.resource_names import DEFAULT_SHARE
from scheduler_ext.wire.pod.cached_pod import DEVICES_PREFIX
from tests.manifests.objects import of_kind
from tests.manifests.shipped import REPOSITORY, shipped

SAMPLES = REPOSITORY / "manifests" / "samples"
_WITHOUT = re.compile(r"gpu\.scheduler-ext\.io/memory-mib|devices\.gpu\.scheduler-ext\.io/")


def test_the_policies_name_the_resource_and_the_annotation_of_the_code() -> None:
    objects = shipped("shares", "shares-cdi")
    policies = of_kind(objects, "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
    named = {found for policy in policies for found in _WITHOUT.findall(yaml.safe_dump(policy, width=10_000))}
    assert named == {DEFAULT_SHARE, DEVICES_PREFIX}


def test_a_reservation_has_room_for_every_pod_the_extender_takes() -> None:
    (crd,) = [
        each
        for each in of_kind(shipped("shares"), "CustomResourceDefinition")
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
