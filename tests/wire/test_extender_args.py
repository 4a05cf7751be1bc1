"""extender/v1 bodies as Go writes them, and malformed ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler_ext.core.errors import RequestError
from scheduler_ext.wire.extender_args import (
    ExtenderArgs,
    decode_args,
    encode_filter_result,
    encode_priorities,
)
from scheduler_ext.wire.kube import ObjectMeta, PodSpec

POD = b'{"metadata":{"name":"p"}}'


def whole(body: bytes) -> ExtenderArgs:
    """A request with its pod decoded, too."""
    args = decode_args(body)
    assert args.pod is not None
    return args


def refusal_of(body: bytes) -> str:
    with pytest.raises(RequestError) as refusal:
        whole(body)
    assert refusal.value.status == 400
    message = str(refusal.value)
    assert len(message) < 300
    return message


def args_of(**fields: Any) -> bytes:
    return json.dumps({"Pod": {}, "NodeNames": []} | fields).encode()


def pod_spec(**spec: Any) -> bytes:
    return args_of(Pod={"spec": spec})


class TestForms:
    def test_names(self) -> None:
        args = whole(args_of(Nodes=None, NodeNames=["b", "a", "b"]))
        assert (args.names, args.nodes) == (["b", "a", "b"], None)

    def test_nodes(self) -> None:
        items = [{"metadata": {"name": "b"}}, {"metadata": {"name": "a"}}]
        args = whole(args_of(NodeNames=None, Nodes={"metadata": {}, "items": items}))
        assert args.names == ["b", "a"]
        assert len(args.nodes or ()) == 2

    @pytest.mark.parametrize(
        ("fields", "names"),
        [
            pytest.param({"NodeNames": None, "Nodes": None}, [], id="both null"),
            pytest.param({"Nodes": {"items": None}, "NodeNames": None}, [], id="null items"),
            pytest.param({"Nodes": {"items": [{}]}, "NodeNames": ["x"]}, [""], id="both, without metadata"),
        ],
    )
    def test_null_and_missing_lists_are_empty(self, fields: dict[str, Any], names: list[str]) -> None:
        assert whole(args_of(**fields)).names == names

    def test_raw_nodes_are_the_bytes_that_were_sent(self) -> None:
        sent = b'{"metadata":{"name":"n"},  "future":[1.50,"\\u003c"]}'
        args = whole(b'{"Pod":{},"Nodes":{"items":[%s]}}' % sent)
        assert args.raw_nodes is not None
        assert [bytes(raw) for raw in args.raw_nodes] == [sent]


class TestAsGoReads:
    def test_the_last_of_duplicate_keys_wins(self) -> None:
        body = (
            b'{"Pod":{"metadata":{"name":"a","name":"b"}},"NodeNames":["x"],"NodeNames":["y"],"Pod":%s}' % POD
        )
        args = whole(body)
        assert args.names == ["y"]
        assert args.pod.metadata is not None
        assert args.pod.metadata.name == "p"

    def test_unknown_fields_are_skipped_on_every_level(self) -> None:
        pod = {"kind": "Pod", "x": [], "spec": {"y": {"z": None}, "containers": [{"q": 1}]}}
        assert whole(args_of(Future=1, Pod=pod, NodeNames=["n"])).names == ["n"]

    def test_null_is_absent_for_every_field_of_a_pod(self) -> None:
        fields = {name: None for struct in (PodSpec, ObjectMeta) for name in struct.__struct_encode_fields__}
        empty = whole(args_of()).pod
        for part in ("metadata", "spec", "status"):
            assert whole(args_of(Pod={part: None})).pod == empty
            whole(args_of(Pod={part: fields | {"phase": None}}))
        assert whole(pod_spec(**fields)).pod == whole(pod_spec()).pod
        null_in_maps = {"metadata": {"annotations": {"a": None}}, "spec": {"nodeSelector": {"b": None}}}
        assert whole(args_of(Pod=null_in_maps)).names == []

    def test_huge_numbers_in_skipped_fields_are_tolerated(self) -> None:
        body = b'{"Pod":{"spec":{"terminationGracePeriodSeconds":%s,"x":1e9999}},"NodeNames":["n"]}' % (
            b"9" * 10_000
        )
        assert whole(body).names == ["n"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        pytest.param(args_of(NodeNames="n"), "NodeNames", id="names that are no list"),
        pytest.param(args_of(NodeNames=["a", 5]), "NodeNames[1]", id="a name that is no string"),
        pytest.param(args_of(Pod=[]), "Pod", id="a pod that is no object"),
        pytest.param(
            args_of(Pod={"metadata": {"annotations": {"a": 1}}}), "Pod.metadata.annotations[...]", id="one"
        ),
        pytest.param(
            pod_spec(containers=[{}, {"resources": {"limits": []}}]),
            "Pod.spec.containers[1].resources.limits",
            id="limits",
        ),
        pytest.param(pod_spec(priority=10**400), "Pod.spec.priority", id="a priority of 400 digits"),
        pytest.param(
            args_of(Nodes={"items": [{}, {"status": {"allocatable": 1}}]}),
            "Nodes.items[1].status.allocatable",
            id="its room",
        ),
    ],
)
def test_wrong_types_are_named_by_their_path(body: bytes, path: str) -> None:
    message = refusal_of(body)
    assert message.startswith(path)
    assert "Expected" in message


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(b"", "empty", id="nothing"),
        pytest.param(b"null", "Expected `object`", id="null"),
        pytest.param(b'{"Pod":null,"NodeNames":["n"]}', "Pod: missing", id="a null pod"),
        pytest.param(b'{"Pod":{},"NodeNames":["n"]', "truncated", id="truncated"),
        pytest.param(b'{"Pod":{},"NodeNames":["n"]}}', "trailing", id="something after it"),
        pytest.param(b'{"Pod":{"x":NaN},"NodeNames":[]}', "malformed", id="NaN"),
        pytest.param(b"\xef\xbb\xbf" + args_of(), "malformed", id="a byte order mark"),
        pytest.param(args_of().decode().encode("utf-16"), "UTF-16", id="UTF-16 with a mark"),
        pytest.param(args_of().decode().encode("utf-32-le"), "UTF-16", id="UTF-32"),
        pytest.param(b'{"Pod":{},"NodeNames":["\xff"]}', "not UTF-8 at byte", id="invalid UTF-8 in a name"),
        pytest.param(
            b'{"Pod":{"x":"\xc3\x28"},"NodeNames":[]}', "not UTF-8 at byte", id="and in a skipped field"
        ),
        pytest.param(
            b'{"Pod":{"x":%s},"NodeNames":[]}' % (b"[" * 100_000), "nested too deeply", id="a depth bomb"
        ),
        pytest.param(
            b'{"Pod":{},"Nodes":{"items":[%s]}}' % (b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
            "nested too deeply",
            id="a depth bomb in a node",
        ),
    ],
)
def test_a_body_that_is_no_request_is_refused_in_words(body: bytes, problem: str) -> None:
    assert problem in refusal_of(body)


class TestReplies:
    def test_names_are_answered_in_their_order_with_the_keys_of_go(self) -> None:
        args = whole(args_of(NodeNames=["c", "a", "b"]))
        reply = encode_filter_result(args, [0, 2], {"a": "no"})
        assert reply == (
            b'{"Nodes":null,"NodeNames":["c","b"],"FailedNodes":{},"FailedAndUnresolvableNodes":{"a":"no"},"Error":""}'
        )

    def test_nodes_are_answered_with_the_bytes_that_were_sent(self) -> None:
        args = whole(
            b'{"Pod":{},"Nodes":{"items":[{"metadata":{"name":"a"}, "x":1.0},{"metadata":{"name":"b"}}]}}'
        )
        reply = encode_filter_result(args, [0], {"b": "no"})
        assert reply == (
            b'{"Nodes":{"items":[{"metadata":{"name":"a"}, "x":1.0}]},"NodeNames":null,'
            b'"FailedNodes":{},"FailedAndUnresolvableNodes":{"b":"no"},"Error":""}'
        )

    def test_nothing_fits_is_an_empty_list_and_never_null(self) -> None:
        names = json.loads(encode_filter_result(whole(args_of()), [], {}))
        nodes = json.loads(encode_filter_result(whole(args_of(Nodes={"items": []})), [], {}))
        assert (names["Nodes"], names["NodeNames"], nodes["Nodes"]) == (None, [], {"items": []})

    def test_priorities_are_a_bare_array_of_integers(self) -> None:
        assert (
            encode_priorities(["a", "ü"], [10, 0])
            == '[{"Host":"a","Score":10},{"Host":"ü","Score":0}]'.encode()
        )
        assert encode_priorities([], []) == b"[]"
