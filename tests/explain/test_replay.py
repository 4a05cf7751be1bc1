"""A snapshot of decisions, replayed elsewhere: the answers equal the extender's."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.cycle.cycle import filter_nodes, points
from scheduler_ext.core.errors import RequestError, SnapshotFileError
from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import PendingPod
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.snapshot_dump import Dump, RecordedCluster, revived, taken
from scheduler_ext.extender.answer import RecordedBind
from scheduler_ext.extender.extender import Extender
from scheduler_ext.sources.source_status import SourceStatus
from scheduler_ext.wire.config import Configuration, InspectionSection, ScoreSection
from scheduler_ext.wire.node_info import node_constraints
from scheduler_ext.wire.objects import assemble, device_index, read_objects, waiting, workload_of
from scheduler_ext.wire.pod.pod_claims import ClaimLookup
from scheduler_ext.wire.pod.pod_request import pod_request
from scheduler_ext.wire.snapshot_file import decode_snapshot_file, encode_snapshot_file
from tests.dra_objects import device_class, gpu_device, request, resource_claim, resource_slice
from tests.examples import examples
from tests.extender.foreseeing import asking_pods, asks, clusters, read
from tests.extender.preempting import share_node, whole_node
from tests.extender.test_record import ask
from tests.kube_objects import ANNOTATION, SHARE, Json, inventory, node, pod

WHOLE = "nvidia.com/gpu"


@dataclass
class Running:
    """An extender on a file's objects."""

    extender: Extender
    waiting: Sequence[PendingPod]
    facts: Mapping[str, NodeFacts]
    config: Configuration
    # The uids of decided pods that are gone.
    gone: Set[str] = frozenset()
    reported: SourceStatus = field(default_factory=lambda: SourceStatus([], 0.0))

    @property
    def claims(self) -> ClaimLookup | None:
        return self.extender.claims

    @property
    def snapshot(self) -> Snapshot | None:
        return self.extender.snapshot

    def pending(self) -> Sequence[PendingPod]:
        return self.waiting

    def is_gone(self, uid: str) -> bool:
        return uid in self.gone

    def node_facts(self) -> Mapping[str, NodeFacts]:
        return self.facts

    def status(self) -> SourceStatus:
        return self.reported

    def explainer(self) -> Explainer:
        return Explainer(self, self.extender.record, self.config, self.extender.preemption_answers)

    def replayed(self) -> RecordedCluster:
        return revived(decode_snapshot_file(self.explainer().snapshot_file(), Dump))


def running(*objects: Json, config: Configuration | None = None) -> Running:
    config = config or Configuration()
    resources = config.resource_names()
    found = read_objects(inventory(*objects))
    extender = Extender(config)
    forecast = Forecast(workload_of(found.pods, resources), ())
    index = device_index(found, resources)
    extender.replace_nodes(assemble(found, resources).values(), forecast, index)
    facts = {name: node_constraints(node) for name, node in found.nodes.items()}
    return Running(extender, waiting(found, resources, index), facts, config)


def replaying(replayed: RecordedCluster) -> Explainer:
    return Explainer(replayed, replayed.record, replayed.config)


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[Json], list[Json], Configuration]:
    """A cluster, decided pods, and a configuration."""
    objects = draw(clusters())
    names = draw(st.lists(st.sampled_from("pqr"), min_size=1, max_size=3, unique=True))
    pods = [draw(asking_pods(name)) for name in names]
    config = Configuration(
        score=ScoreSection(strategy=draw(st.sampled_from(("fragmentation", "binpack", "spread")))),
        inspection=InspectionSection(hide_other_namespaces=draw(st.booleans())),
    )
    if draw(st.booleans()):
        nominated = draw(asking_pods("nominated"))
        nominated["status"] = {"nominatedNodeName": draw(st.sampled_from("abc"))}
        objects.append(nominated)
    return objects, pods, config


@examples(10, long=400)
@given(situations(), st.data())
def test_a_replay_answers_as_the_extender_did(
    situation: tuple[list[Json], list[Json], Configuration], data: st.DataObject
) -> None:
    objects, pods, config = situation
    there = running(*objects, config=config)
    snapshot = there.snapshot
    assert snapshot is not None
    names = list(snapshot.nodes)
    for asking in pods:
        offered = data.draw(st.lists(st.sampled_from(names), unique=True))
        ask(there.extender, asking, offered)
    first = pods[0]["metadata"]
    there.extender.record.bound(
        first["uid"], "default", first["name"], RecordedBind(1.5, names[0], "bound", "", {"c0": ("GPU-1",)})
    )
    there.gone = data.draw(st.frozensets(st.sampled_from([each["metadata"]["uid"] for each in pods])))
    elsewhere = replaying(there.replayed())
    for asking in [*pods, *(each for each in objects if each["kind"] == "Pod")]:
        name = asking["metadata"]["name"]
        try:
            told = there.explainer().of_name("default", name)
        except RequestError as error:
            with pytest.raises(RequestError, match=f"^{error.args[0][:40]}"):
                elsewhere.of_name("default", name)
            continue
        assert elsewhere.of_name("default", name) == told
    other = read(data.draw(asking_pods("other")))[0]
    assert elsewhere.of_manifest(other) == there.explainer().of_manifest(other)


@examples(10, long=400)
@given(clusters(), asking_pods())
def test_filter_and_prioritize_would_have_answered_the_same(objects: list[Json], asking: Json) -> None:
    there = running(*objects)
    snapshot, again = there.snapshot, there.replayed().snapshot
    assert snapshot is not None
    request = pod_request(read(asking)[0], there.config.resource_names())
    assert isinstance(request, GpuRequest)
    rows = [
        (
            decision.verdict[s.state_of[s.rows(names)]].tolist(),
            points(decision.totals[s.state_of[s.rows(names)]], decision.scored.resolution).tolist(),
        )
        for s in (snapshot, again)
        for decision in [filter_nodes(request, s, there.config.policy())]
        for names in [list(snapshot.nodes)]
    ]
    assert rows[0] == rows[1]


def test_claims_and_devices_of_dra_survive() -> None:
    partition = gpu_device(1, node="n") | {
        "consumesCounters": [{"counterSet": "gpu-1", "counters": {"slices": {"value": "1"}}}]
    }
    published = resource_slice("n", [gpu_device(0, node="n"), partition])
    published["spec"]["sharedCounters"] = [{"name": "gpu-1", "counters": {"slices": {"value": "1"}}}]
    waits = pod("waits", resourceClaims=[{"name": "gpu", "resourceClaimName": "wanted"}])
    there = running(
        node("n"),
        device_class(),
        published,
        resource_claim("held", on="n", devices=["gpu-0"]),
        resource_claim("wanted", request(1, "device.driver == 'gpu.nvidia.com'")),
        waits,
    )
    replayed = there.replayed()
    told = there.explainer().of_name("default", "waits")
    assert told["request"]["claims"] == [{"devices": "gpu.nvidia.com with requirements", "count": 1}]
    assert told["best"] == ["n"]
    assert replaying(replayed).of_name("default", "waits") == told
    assert replayed.snapshot is not None
    assert there.snapshot is not None
    assert replayed.snapshot.nodes["n"].state == there.snapshot.nodes["n"].state
    unknown = pod("other", resourceClaims=[{"name": "gpu", "resourceClaimName": "unknown"}])
    asked = read(unknown)[0]
    assert replaying(replayed).of_manifest(asked) == there.explainer().of_manifest(asked)


def test_the_file_has_only_data_that_decisions_read() -> None:
    held = pod("x", {SHARE: "1000"}, on="n", annotations={"team": "SECRET"})
    held["metadata"]["labels"] = {"a": "SECRET"}
    held["spec"]["containers"][0]["env"] = [{"name": "A", "value": "SECRET"}]
    there = running(*share_node("n", 1), held)
    asking = pod("p", {SHARE: "1000"}, annotations={"team": "SECRET"})
    asking["spec"]["containers"][0]["command"] = ["SECRET"]
    ask(there.extender, asking, ["n"])
    waiting = pod("w", {WHOLE: "1"}, annotations={"team": "SECRET"})
    there.waiting = running(waiting).waiting
    assert b"SECRET" not in gzip.decompress(there.explainer().snapshot_file())
    # Manifests are base64 in the file.
    replayed = there.replayed()
    manifests = [*(each.pod for each in replayed.record), *(each.manifest for each in replayed.pending())]
    assert len(manifests) == 2
    assert all(b"containers" in manifest and b"SECRET" not in manifest for manifest in manifests)


def test_the_nodes_of_a_request_survive_changes_of_the_cluster() -> None:
    there = running(*whole_node("a", None), *whole_node("b", None), *whole_node("c", None))
    ask(there.extender, pod("p", {WHOLE: "1"}), ["a", "b"])
    resources = there.config.resource_names()
    found = assemble(read_objects(inventory(*whole_node("d", None), *whole_node("b", None))), resources)
    there.extender.update_nodes({"a": None, "d": found["d"]})
    told = {entry["node"]: entry["reason"] for entry in there.explainer().of_name("default", "p")["nodes"]}
    left_out = "node(s) that kube-scheduler did not pass on to the extender"
    assert told == {"b": None, "c": left_out, "d": None}
    # A later decision, about other nodes.
    ask(there.extender, pod("q", {WHOLE: "1"}), ["d"])
    for name in ("p", "q"):
        assert replaying(there.replayed()).of_name("default", name) == there.explainer().of_name(
            "default", name
        )


def test_thousands_of_decisions_are_saved_once_for_the_same_nodes() -> None:
    there = running(*whole_node("a", None), *whole_node("b", None, "x"), asks("w", {WHOLE: "3"}))
    for i in range(300):
        wants = pod(f"p{i}", {WHOLE: "1"}, annotations={ANNOTATION + "model": "H100"})
        ask(there.extender, wants, ["a"] if i % 2 else ["a", "b"])
    snapshot = there.snapshot
    assert snapshot is not None
    file = taken(snapshot, there.pending(), there.facts, there.extender.record, there.config, there.is_gone)
    assert (len(file.decisions), len(file.names), len(set(file.asked))) == (300, 1, 2)
    assert decode_snapshot_file(encode_snapshot_file(file), Dump) == file


def good_file() -> bytes:
    return gzip.decompress(running(*whole_node("a", None)).explainer().snapshot_file())


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(b"{}", "apiVersion None, kind None; give a file of /debug/snapshot", id="another JSON"),
        pytest.param(
            gzip.compress(bytes(range(256)))[:100], "ends too early; fetch it again", id="half a file"
        ),
        pytest.param(b"\x1f\x8bgarbage", "cannot be unpacked", id="no gzip behind its first bytes"),
        pytest.param(b"kind: List", "not JSON", id="YAML"),
    ],
)
def test_files_that_are_no_snapshot(body: bytes, problem: str) -> None:
    with pytest.raises(SnapshotFileError, match=problem):
        decode_snapshot_file(body, Dump)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        pytest.param("version", "9.9", "written by release 9.9, and this is", id="another release"),
        pytest.param("nodes", [{"name": 5}], r"cannot be read: .*nodes\[0\]\.name", id="a broken node"),
        pytest.param(
            "apiVersion",
            "debug.scheduler-ext.io/v1alpha1",
            "v1alpha1', kind 'DecisionSnapshot'; give a file of /debug/snapshot of this release",
            id="a file of before",
        ),
    ],
)
def test_fields_that_cannot_be_meant_are_named(field: str, value: object, problem: str) -> None:
    good = json.loads(good_file())
    (good["state"] if field in good["state"] else good)[field] = value
    body = json.dumps(good).encode()
    with pytest.raises(SnapshotFileError, match=problem):
        decode_snapshot_file(body, Dump)


def test_a_file_that_unpacks_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_ext.wire.snapshot_file._MOST_BYTES", 1000)
    with pytest.raises(SnapshotFileError, match="unpacks to more than 1000 bytes"):
        decode_snapshot_file(gzip.compress(b" " * 100_000), Dump)
