"""Lists and watches as they are written: whole, partly broken, and not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler_ext.core.errors import ClusterError
from scheduler_ext.wire.gpunode import GpuNode
from scheduler_ext.wire.kube import NodeObject, Status, read_status
from scheduler_ext.wire.watching import Broken, Decoder, WatchEvent
from tests.kube_objects import Json, gpu, gpu_node, node

NODES = Decoder(NodeObject)
GPU_NODES = Decoder(GpuNode)


def page(items: Any, **metadata: Any) -> bytes:
    return json.dumps({"kind": "NodeList", "metadata": metadata, "items": items}).encode()


def names(items: list[NodeObject]) -> list[str | None]:
    return [item.metadata.name if item.metadata else None for item in items]


def line(kind: str, found: Json, version: str = "7") -> bytes:
    return json.dumps(
        {"type": kind, "object": found | {"metadata": found["metadata"] | {"resourceVersion": version}}}
    ).encode()


class TestPages:
    def test_a_page(self) -> None:
        found = NODES.page(page([node("a"), node("b")], resourceVersion="12", **{"continue": "more"}))
        assert (names(found.items), found.broken) == (["a", "b"], [])
        assert (found.resource_version, found.next) == ("12", "more")

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param(page(None, resourceVersion="12", **{"continue": ""}), id="null items"),
            pytest.param(b'{"metadata":{"resourceVersion":"12","continue":null}}', id="no such field"),
        ],
    )
    def test_an_empty_list(self, body: bytes) -> None:
        found = NODES.page(body)
        assert (found.items, found.broken, found.resource_version, found.next) == ([], [], "12", "")

    def test_broken_objects_are_named_and_hide_no_other(self) -> None:
        bad = gpu_node("bad", [gpu(0) | {"index": -1}])
        bad["metadata"]["uid"] = "u"
        found = GPU_NODES.page(page([gpu_node("a", []), bad, gpu_node("b", [])]))
        assert [item.metadata.name for item in found.items if item.metadata] == ["a", "b"]
        assert found.broken == [Broken("bad", "u", "status.devices[0].index: Expected `int` >= 0")]

    def test_the_name_has_its_namespace(self) -> None:
        bad = {"metadata": {"name": "p", "namespace": "ns"}, "spec": 7}
        assert NODES.page(page([bad])).broken[0].name == "ns/p"
        assert NODES.page(page([{"spec": 7}])).broken[0].name == "?"

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param(b"<html>", id="no JSON"),
            pytest.param(b"[]", id="no object"),
            pytest.param(b'{"items":7}', id="items that are none"),
            pytest.param(b'{"items":[{"metadata":{"name":"\xff"}}]}', id="bytes that are no text"),
            pytest.param(b'{"items":[{"metadata":7}]}', id="an object without a head"),
        ],
    )
    def test_no_list_is_an_error(self, body: bytes) -> None:
        with pytest.raises(ClusterError, match=r"^not a readable list: "):
            NODES.page(body)


class TestEvents:
    @pytest.mark.parametrize("kind", ["ADDED", "A_KIND_OF_THE_FUTURE"])
    def test_a_change(self, kind: str) -> None:
        event = NODES.event(line(kind, node("a")))
        assert (event.kind, event.resource_version) == (kind, "7")
        assert isinstance(event.object, NodeObject)
        assert names([event.object]) == ["a"]

    def test_a_bookmark_is_a_version(self) -> None:
        body = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","creationTimestamp":null}}}'
        assert NODES.event(body) == WatchEvent("BOOKMARK", "9", None)

    def test_an_object_that_cannot_be_read_has_a_version_all_the_same(self) -> None:
        event = NODES.event(line("MODIFIED", {"metadata": {"name": "a", "uid": "u"}, "spec": 7}))
        assert event == WatchEvent(
            "MODIFIED", "7", Broken("a", "u", "spec: Expected `object | null`, got `int`")
        )

    def test_an_error(self) -> None:
        body = b'{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"too old"}}'
        assert NODES.event(body) == WatchEvent("ERROR", "", Status(410, "Expired", "too old"))

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param(b"x", id="no JSON"),
            pytest.param(b'{"type":7}', id="a type that is none"),
            pytest.param(b'{"type":"ADDED","object":7}', id="an object that is none"),
            pytest.param(b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}', id="no text"),
        ],
    )
    def test_no_event_is_an_error(self, body: bytes) -> None:
        with pytest.raises(ClusterError, match=r"^not a readable watch event: "):
            NODES.event(body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            b'{"code":403,"reason":"Forbidden","message":"no"}', Status(403, "Forbidden", "no"), id="one"
        ),
        pytest.param(b'{"code":"x"}', Status(message='{"code":"x"}'), id="a status that is none"),
        pytest.param(b"<html>bad gateway", Status(message="<html>bad gateway"), id="a proxy's page"),
        pytest.param(b"\xff", Status(message="\ufffd"), id="bytes that are no text"),
        pytest.param(b"null", Status(message="null"), id="null"),
    ],
)
def test_the_status_of_a_refusal(body: bytes, expected: Status) -> None:
    assert read_status(body) == expected
