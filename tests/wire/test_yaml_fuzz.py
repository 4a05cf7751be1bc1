"""Mutated YAML and JSON: whatever comes in, a value or an error of one line comes out, within its bounds."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Callable

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_ext.core.errors import ConfigError, InventoryError
from scheduler_ext.core.request.quantity import QuantityError
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire import yaml_values
from scheduler_ext.wire.config import load_config
from scheduler_ext.wire.objects import assemble, read_manifests, read_objects
from scheduler_ext.wire.pod.pod_needs import pod_needs
from scheduler_ext.wire.pod.pod_request import pod_request
from scheduler_ext.wire.yaml_values import FILE, POSTED, YamlLimits
from tests.examples import examples
from tests.kube_objects import SHARE, gpu, gpu_node, node, pod
from tests.wire.hostile_texts import BOMBS, POD, SCALARS

# Many times the size of a body and its values: the parser's own objects count as well.
POSTED_MIB = 64
_NAMES = ResourceNames()
_OBJECTS = [
    {"apiVersion": "v1", "kind": "Pod"} | pod("p", {SHARE: "4096", "nvidia.com/gpu": 1}, priority=7),
    {
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 3, "template": {"spec": {"containers": []}}},
    },
    gpu_node("n", [gpu(0)]),
    node("n", {"nvidia.com/gpu": "1"}),
]
_CONFIGURATION = {"apiVersion": "config.scheduler-ext.io/v1alpha1", "kind": "ExtenderConfiguration"}
SEEDS = [
    *(yaml.safe_dump(each).encode() for each in _OBJECTS),
    *(json.dumps(each).encode() for each in _OBJECTS),
    yaml.safe_dump_all(_OBJECTS[:2]).encode(),
    yaml.safe_dump(_CONFIGURATION | {"filter": {"maxCandidates": 5}}).encode(),
    b"a: &a {k: [1, 2.5, on, ~]}\nb: {<<: *a, c: [*a, *a]}\nkind: Pod\nmetadata: {name: p}\n",
    *(f"{POD}x: {scalar}\n".encode() for scalar in SCALARS if len(scalar) < 200),
    *(bomb.encode() for bomb in BOMBS.values() if len(bomb) < 1000),
]
PIECES = [
    *(b"*a", b"&a ", b"<<: ", b"<<", b"? ", b": ", b"- ", b"[", b"]", b"{", b"}", b"!!", b"!<"),
    *(b"---\n", b"...\n", b"|\n", b">\n", b'"', b"'", b"\\ud800", b"\\x00", b"\x00", b"\xff", b"\xff\xfe"),
    *(b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\t", b"\r", b"\xc2\x85", b"#", b"~", b"1:30", b".nan", b"0x"),
    *(b"null", b"true", b"replicas: -1\n", b"%TAG ! a\n", b"\n  ", b",", b"9" * 30, b"*a, " * 50, b"[" * 10),
    b"{a: {a: {a: {a: ",
]


def mutated(seed: bytes, chosen: random.Random) -> bytes:
    """A text with some pieces put in, taken out, doubled or exchanged."""
    text = bytearray(seed)
    for _ in range(chosen.randint(1, 6)):
        at = chosen.randint(0, len(text))
        upto = min(len(text), at + chosen.choice((0, 1, 1, 3, 20)))
        kind = chosen.randint(0, 3)
        if kind == 0:
            text[at:upto] = chosen.choice(PIECES)
        elif kind == 1:
            text[at:upto] = b""
        elif kind == 2:
            text[at:at] = bytes(text[at:upto]) * chosen.choice((2, 10))
        else:
            text[at:upto] = bytes([chosen.randint(0, 255)])
    return bytes(text)


texts = st.one_of(
    st.builds(mutated, st.sampled_from(SEEDS), st.randoms(use_true_random=False)),
    st.binary(max_size=200),
    st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
)


def pods_of(text: bytes, limits: YamlLimits) -> None:
    """All that is read of a pod before it is decided about."""
    for manifest in read_manifests(text, limits):
        pod_request(manifest.pod, _NAMES)
        pod_needs(manifest.pod)


READERS: dict[str, Callable[[bytes], object]] = {
    "posted": lambda text: pods_of(text, POSTED),
    "pods": lambda text: pods_of(text, FILE),
    "inventory": lambda text: assemble(read_objects(text), _NAMES),
    "configuration": load_config,
}


def problem_of(kind: str, text: bytes) -> str:
    """The error of a text; nothing if it is read. Any other exception is a bug."""
    try:
        READERS[kind](text)
    except (InventoryError, ConfigError, QuantityError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize("parser", [yaml.CSafeLoader, yaml.SafeLoader], ids=["C", "Python"])
@pytest.mark.parametrize("kind", READERS)
def test_a_text_is_a_value_or_one_line(kind: str, parser: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_values, "_LOADER", parser)

    @examples(100, 3000)
    @given(texts)
    def holds(text: bytes) -> None:
        problem = problem_of(kind, text)
        assert "\n" not in problem
        assert len(problem) < 2000

    holds()


@settings(max_examples=40)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=8), st.sampled_from(SEEDS))
def test_no_body_of_the_largest_size_takes_more_than_its_memory(pieces: list[bytes], seed: bytes) -> None:
    """Pieces repeated to 256 KiB behind something that begins well."""
    unit = b"".join(pieces)
    text = (seed + unit * (2**18 // len(unit)))[: 2**18]
    tracemalloc.start()
    try:
        problem = problem_of("posted", text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "\n" not in problem
    assert peak < POSTED_MIB * 2**20
