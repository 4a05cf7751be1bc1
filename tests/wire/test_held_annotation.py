"""The annotation that holds room on a GPUNode."""

from __future__ import annotations

import json
import logging

import pytest

from scheduler_ext.core.request.request import ShareRequest, UnitRequest
from scheduler_ext.wire.gpunode import read_gpu_node
from scheduler_ext.wire.held_annotation import (
    HELD_ANNOTATION,
    WrittenRoom,
    held_patch,
    rooms_text,
    written_rooms,
)
from tests.kube_objects import gpu, gpu_node

AT = 1_800_000_000.0


def read(text: str) -> list[WrittenRoom]:
    made = gpu_node("a", [gpu(0)])
    made["metadata"]["annotations"] = {HELD_ANNOTATION: text}
    return written_rooms(read_gpu_node(json.dumps(made).encode()))


@pytest.mark.parametrize(
    "room",
    [
        pytest.param(WrittenRoom("4 free GPUs", AT, 0, {"nvidia.com/gpu": 4}), id="whole GPUs"),
        pytest.param(WrittenRoom("a/b", AT, -5, {"nvidia.com/mig-3g.40gb": 1}, {"main": 8}), id="parts"),
        pytest.param(WrittenRoom("a/b", AT, devices={"main": "GPU-0"}), id="the GPU of a pod's share"),
    ],
)
def test_a_room_is_read_as_it_was_written(room: WrittenRoom) -> None:
    assert read(rooms_text([room])) == [room]


def test_an_amount_is_a_request() -> None:
    (room,) = read(
        '[{"for":"x","until":"2027-01-15T08:00:00Z","units":{"nvidia.com/mig-1g.10gb":2},'
        '"shares":{"main":1024}}]'
    )
    request = room.request()
    assert request is not None
    assert request.units == (UnitRequest("nvidia.com/mig-1g.10gb", 2, "1g.10gb"),)
    assert request.shares == ShareRequest((("main", 1024),))


@pytest.mark.parametrize("text", ["GPU-1", '[{"for":"x","until":"2027-01-15T08:00:00Z","units":{"a":-1}}]'])
def test_an_unreadable_annotation_holds_nothing_and_is_logged(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert read(text) == []
    assert "GPUNode a" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('[{"for":"x","until":"soon"}]', id="a time that is none"),
        pytest.param(
            '[{"for":"x","until":"2027-01-15T08:00:00Z","units":{"nvidia.com/mig-x":1}}]', id="no profile"
        ),
    ],
)
def test_a_room_that_means_nothing_is_left_out(text: str) -> None:
    assert read(text) == []


def test_the_last_room_takes_the_annotation_away() -> None:
    patch = held_patch([], "7")
    assert patch == {"metadata": {"resourceVersion": "7", "annotations": {HELD_ANNOTATION: None}}}
