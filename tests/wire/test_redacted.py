"""A pod that is kept leaves out what may be secret."""

from __future__ import annotations

import json

import msgspec

from scheduler_ext.wire import kube
from scheduler_ext.wire.redacted import read_redacted, redacted_pod
from tests.kube_objects import pod, terminated


def test_messages_of_containers_and_owners_are_left_out() -> None:
    ended = terminated(pod("p", {"nvidia.com/gpu": "1"}), "password=secret")
    ended["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "secret", "controller": True}]
    kept = redacted_pod(msgspec.json.decode(json.dumps(ended), type=kube.Pod))
    assert b"secret" not in kept
    read = read_redacted(kept)
    assert read.status is not None
    assert read.status.phase == "Pending"
