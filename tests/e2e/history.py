"""The history of pods, from two witnesses: a watch, which has every state in the API server's own order, and
the API server's audit log, which has every Binding with its author.

Both are plain JSON. The checks return sentences about errors, and nothing if all is correct.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.e2e.cluster.api import Api, Json
from tests.held import DEVICES, held

Event = tuple[str, Json]
ASSIGNED = "gpu.scheduler-ext.io/assigned"


class Recorder:
    """Records the changes of a namespace's pods while it is entered; `events` are in their order."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.events: list[Event] = []
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._record, name="recorder", daemon=True)

    def __enter__(self) -> Recorder:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _record(self) -> None:
        for event in self._api.watch(self._path, self._stopping.is_set):
            self.events.append(event)


def over_promised(events: Iterable[Event], room: Mapping[str, int]) -> Iterator[str]:
    """Every moment at which pods held more than exists; `room` is the amount of each key of `held`."""
    holdings: dict[str, Mapping[str, int]] = {}
    for kind, pod in events:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        before = holdings.pop(uid, {})
        now = held(pod) if kind != "DELETED" else {}
        if now is None:
            yield f"{name} has a share on no GPU"
        elif now:
            holdings[uid] = now
        if not now or now == before:
            continue
        for key in now:
            sum_ = sum(each.get(key, 0) for each in holdings.values())
            if sum_ > room.get(key, 0):
                on_it = sorted(other for other, each in holdings.items() if key in each)
                yield f"{key} has {room.get(key, 0)}, and {sum_} of it is held when {name} comes: {on_it}"


def moved(events: Iterable[Event]) -> Iterator[str]:
    """Every pod whose node or GPUs changed after it was bound."""
    places: dict[str, object] = {}
    for _, pod in events:
        node = pod["spec"].get("nodeName")
        uid = pod["metadata"]["uid"]
        place = (node, _assigned(pod["metadata"]))
        if node is not None and places.setdefault(uid, place) != place:
            yield f"{pod['metadata']['name']} was at {places[uid]} and is at {place}"


def audited(log: Path) -> list[Json]:
    """The writes of an audit log that happened or may have happened, in the order in which they were
    received.

    A server that answers with a timeout, because its client disconnected, may have written; a request that it
    never read to its end was not executed.
    """
    lines = [json.loads(line) for line in log.read_bytes().splitlines()]
    done = [
        each
        for each in lines
        if _is_sure(each) or (each["responseStatus"]["code"] >= 500 and "requestObject" in each)
    ]
    return sorted(done, key=lambda each: str(each["requestReceivedTimestamp"]))


def _is_sure(write: Json) -> bool:
    return bool(200 <= write["responseStatus"]["code"] < 300)


def bindings(writes: Iterable[Json], namespace: str) -> list[Json]:
    """The Bindings among them, for a namespace's pods."""
    return [
        each
        for each in writes
        if each["objectRef"]["resource"] == "pods" and each["objectRef"]["namespace"] == namespace
    ]


def disagreements(events: Sequence[Event], writes: Sequence[Json], namespace: str) -> Iterator[str]:
    """Contradictions of the two witnesses: a pod that was bound twice, or elsewhere, or unseen."""
    seen = {
        pod["metadata"]["uid"]: (pod["spec"]["nodeName"], _assigned(pod["metadata"]))
        for kind, pod in events
        if kind != "DELETED" and pod["spec"].get("nodeName")
    }
    sure: dict[str, list[object]] = defaultdict(list)
    perhaps: dict[str, list[object]] = defaultdict(list)
    for each in bindings(writes, namespace):
        binding = each["requestObject"]
        place = binding["target"]["name"], _assigned(binding["metadata"])
        (sure if _is_sure(each) else perhaps)[binding["metadata"]["uid"]].append(place)
    for uid in seen.keys() | sure.keys():
        posted = sure.get(uid, [])
        if len(posted) > 1 or seen.get(uid) not in (posted or perhaps.get(uid, [])):
            yield f"pod {uid} is at {seen.get(uid)}, and was bound by {posted}, perhaps {perhaps.get(uid)}"


def unannounced(writes: Sequence[Json], namespace: str) -> Iterator[str]:
    """Every Binding with a part of a GPU that its node's GPUReservation did not announce before."""
    announced: set[tuple[str, str, str, str]] = set()
    for each in writes:
        body = each["requestObject"]
        if each["objectRef"]["resource"] == "gpureservations":
            if not _is_sure(each):
                continue
            for intent in body["spec"].get("intents", ()):
                devices = {share["container"]: share["device"] for share in intent["pod"].get("shares", ())}
                who = body["metadata"]["name"], intent["podUID"], intent["resourceVersion"]
                announced.add((*who, _sorted(devices)))
        elif each["objectRef"]["namespace"] == namespace:
            meta = body["metadata"]
            told = meta.get("annotations", {})
            devices = {
                key.removeprefix(DEVICES): value for key, value in told.items() if key.startswith(DEVICES)
            }
            holds = devices or json.loads(told.get(ASSIGNED, "{}")).get("containers")
            bound = (body["target"]["name"], meta["uid"], meta.get("resourceVersion", ""), _sorted(devices))
            if holds and bound not in announced:
                yield f"{meta['name']} was bound as {bound}, and no intent said so before"


def foreign(writes: Iterable[Json], namespace: str, user: str) -> Iterator[str]:
    """Every Binding that another user than `user` posted."""
    for each in bindings(writes, namespace):
        if each["user"]["username"] != user:
            yield f"{each['objectRef']['name']} was bound by {each['user']['username']}"


def _assigned(meta: Json) -> str:
    """All decisions of the extender, as text."""
    annotations = meta.get("annotations") or {}
    return _sorted(
        {key: value for key, value in annotations.items() if key == ASSIGNED or key.startswith(DEVICES)}
    )


def _sorted(values: Mapping[str, str]) -> str:
    return json.dumps(values, sort_keys=True)


def wrongs(
    events: Sequence[Event], writes: Sequence[Json], namespace: str, room: Mapping[str, int], user: str
) -> list[str]:
    """All errors in a history."""
    return [
        *over_promised(events, room),
        *moved(events),
        *disagreements(events, writes, namespace),
        *unannounced(writes, namespace),
        *foreign(writes, namespace, user),
    ]
