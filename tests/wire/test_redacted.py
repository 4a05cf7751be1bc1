"""A pod that is kept leaves out what may be secret."""

from __future__ import annotations

from scheduler_ext.wire.redacted import read_redacted, redacted_pod
from tests.kube_objects import pod, terminated
from tests.wire.decoded_pods import decoded


def test_messages_of_containers_and_owners_are_left_out() -> None:
    ended = terminated(pod("p", {"nvidia.com/gpu": "1"}), "password=secret")
    ended["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "secret", "controller": True}]
    kept = redacted_pod(decoded(ended))
    assert b"secret" not in kept
    read = read_redacted(kept)
    assert read.status is not None
    assert read.status.phase == "Pending"
