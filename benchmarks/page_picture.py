"""A made-up cluster of 97 nodes over twelve hours, for a picture of the page."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.snapshot_dump import RecordedCluster
from scheduler_ext.explain.waiting import WaitingPods
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import assemble, read_objects, waiting
from tests.features.page.browser import Browser
from tests.features.page.page_server import PageServer
from tests.kube_objects import (
    ANNOTATION,
    SHARE,
    Json,
    gpu,
    gpu_node,
    holder,
    inventory,
    names_body,
    node,
    pod,
)

WHOLE = "nvidia.com/gpu"
ONE_G, THREE_G = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
_HOURS = 12.0
_SAMPLES = 72
_LAYOUT = (("1g.10gb", 0, 1), ("1g.10gb", 1, 1), ("2g.20gb", 2, 2), ("3g.40gb", 4, 4))
_TEAMS = ("research", "vision", "speech", "ranking")


class Fleet:
    """Nodes whose load rises and falls over a day; the same for the same hour."""

    def load(self, hour: float, name: str) -> float:
        """The part of a node that is held, about, from 0 to 1."""
        own = random.Random(name).random()
        return min(1.0, max(0.0, 0.62 + 0.2 * math.sin((hour - 8) / 3.8) + 0.9 * (own - 0.5)))

    def objects(self, hour: float) -> Iterator[Json]:
        """All objects at an hour."""
        for number in range(1, 25):
            yield from self._whole(f"h100-{number:02}", "train-h100", "H100-80GB", 81559, hour)
        for number in range(1, 25):
            yield from self._whole(f"a100-{number:02}", "train-a100", "A100-80GB", 81920, hour)
        for number in range(1, 17):
            yield from self._mig(f"mig-{number:02}", hour)
        for number in range(1, 25):
            yield from self._shares(f"l4-{number:02}", hour)
        for number in range(1, 5):
            labels = {"nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.count": "4"}
            yield node(f"l40s-{number:02}", {WHOLE: "4"}, labels=labels | {"karpenter.sh/nodepool": "burst"})
        for number in range(1, 6):
            devices = [gpu(i, f"GPU-t4-{number}-{i}", model="T4", total=15360) for i in range(4)]
            spot = {"karpenter.sh/nodepool": "spot", "karpenter.sh/capacity-type": "spot"}
            yield gpu_node(f"t4-{number:02}", devices)
            yield node(f"t4-{number:02}", {WHOLE: "4"}, labels=spot)

    def _whole(self, name: str, pool: str, model: str, total: int, hour: float) -> Iterator[Json]:
        rng = random.Random(f"{name}/whole")
        held = round(8 * self.load(hour, name))
        devices, at = [], 0
        while at < 8:
            size = min(rng.choice((1, 2, 4, 8)), max(1, held - at)) if at < held else 8 - at
            team = rng.choice(_TEAMS)
            for index in range(at, at + size):
                used = int(total * rng.uniform(0.35, 0.95)) if index < held else rng.choice((0, 0, 0, 450))
                memory = {
                    "totalMiB": total,
                    "reservedMiB": 600,
                    "usedMiB": used,
                    "unaccountedMiB": min(used, 450),
                }
                holders = [holder(f"{team}-{name}-{at}", team)] if index < held else []
                seen = [{"uid": f"uid-{each['name']}", "memoryMiB": max(0, used - 450)} for each in holders]
                sick = {"state": "Unhealthy", "reason": "XID 79: GPU has fallen off the bus"}
                health = {"health": sick} if (name, index) in (("h100-07", 5), ("a100-19", 2)) else {}
                busy = {"utilizationPercent": rng.randrange(60, 100) if index < held else 0} | health
                uuid = f"GPU-{name}-{index}"
                devices.append(gpu(index, uuid, model=model, memory=memory, holders=holders + seen) | busy)
            if holders:
                yield _running(holders[0], {WHOLE: str(size)}, name)
            at += size
        yield gpu_node(name, devices)
        yield node(name, {WHOLE: "8"}, labels={"karpenter.sh/nodepool": pool})
        if name == "a100-19":
            # The pod has just started, and the agent has not seen its GPU yet.
            yield pod("just-started", {WHOLE: "1"}, on=name)

    def _mig(self, name: str, hour: float) -> Iterator[Json]:
        rng = random.Random(f"{name}/mig")
        devices = []
        for index in range(4):
            instances = []
            for profile, start, size in _LAYOUT:
                one: dict[str, Any] = {
                    "uuid": f"MIG-{name}-{index}-{start}",
                    "profile": profile,
                    "start": start,
                    "size": size,
                }
                if rng.random() < self.load(hour, name):
                    one["holder"] = holder(f"notebook-{name}-{index}-{start}", rng.choice(_TEAMS))
                    if f"nvidia.com/mig-{profile}" in (ONE_G, THREE_G):
                        yield _running(one["holder"], {f"nvidia.com/mig-{profile}": "1"}, name)
                instances.append(one)
            mig = {"enabled": True, "instances": instances}
            devices.append(gpu(index, f"GPU-{name}-{index}", mig=mig))
        yield gpu_node(name, devices, migStrategy="mixed")
        yield node(name, {ONE_G: "8", THREE_G: "4"}, labels={"karpenter.sh/nodepool": "notebooks"})

    def _shares(self, name: str, hour: float) -> Iterator[Json]:
        rng = random.Random(f"{name}/shares")
        devices = []
        for index in range(4):
            uuid, asked, used = f"GPU-{name}-{index}", 0, 0
            seen: list[Json] = []
            while asked < 20_000 * self.load(hour, name) and rng.random() < 0.95:
                size = min(rng.choice((2048, 4096, 6144, 8192)), 20_480 - asked)
                if size < 1024:
                    break
                server = pod(f"serve-{name}-{index}-{asked}", {SHARE: str(size)}, on=name)
                server["metadata"] |= {"namespace": "serving", "uid": f"{name}-{index}-{asked}"}
                server["metadata"]["annotations"] = {"devices.gpu.scheduler-ext.io/main": uuid}
                yield server
                asked += size
                seen.append(
                    {
                        "uid": f"{name}-{index}-{asked - size}",
                        "memoryMiB": int(size * rng.uniform(0.4, 1.15 if rng.random() < 0.1 else 0.95)),
                    }
                )
                used += seen[-1]["memoryMiB"]
            stray = rng.choice((0, 0, 0, 0, 1800))
            memory = {
                "totalMiB": 23034,
                "reservedMiB": 400,
                "usedMiB": min(22000, used + stray),
                "unaccountedMiB": stray,
            }
            busy = rng.randrange(20, 90) if asked else 0
            devices.append(gpu(index, uuid, model="L4", memory=memory, holders=seen, utilizationPercent=busy))
        labels = {"karpenter.sh/nodepool": "serving", "gpu.scheduler-ext.io/sharing": "memory"}
        yield gpu_node(name, devices)
        yield node(name, {SHARE: "81920"}, labels=labels)

    def infos(self, hour: float) -> dict[str, NodeInfo]:
        """Nodes by name; one is stale and one missing at the end."""
        found = assemble(read_objects(inventory(*self.objects(hour))), ResourceNames())
        if hour >= _HOURS - 0.5:
            found["a100-22"] = replace(found["a100-22"], freshness="Stale")
            found["l4-11"] = replace(found["l4-11"], freshness="Missing")
        return found


def _asking() -> list[Json]:
    model = ANNOTATION + "model"
    return [
        pod("finetune-7b", {WHOLE: "2"}, annotations={model: "H100"}),
        pod("llm-server-0", {SHARE: "12288"}),
        pod("notebook-anna", {THREE_G: "1"}),
        pod("train-70b", {WHOLE: "8"}, annotations={model: "H100"}, priority=1000),
        pod("train-70b-b", {WHOLE: "8"}, annotations={model: "H100-80GB,A100-80GB"}, priority=1000),
        pod("embed", {SHARE: "22000"}),
        pod("eval-llama", {WHOLE: "4"}, annotations={model: "B200"}),
        pod("speech-tts", {WHOLE: "1"}),
    ]


def made_up_cluster() -> PageServer:
    """Replay the hours, and ask for some pods."""
    fleet, now = Fleet(), time.time()
    server = PageServer(fleet.infos(0.0).values())
    for number in range(_SAMPLES):
        hour = _HOURS * number / _SAMPLES
        server.extender.replace_nodes(fleet.infos(hour).values())
        server.pending_lines = [{}] * int(max(0.0, 3 + 3 * math.sin((hour - 8) / 3.8)))
        server.feed.refresh(now - 3600 * (_HOURS - hour), look=False, take_sample=True)
    server.extender.replace_nodes(fleet.infos(_HOURS).values())
    asking = _asking()
    names = list(fleet.infos(_HOURS))
    for number, each in enumerate(asking):
        created = _stamp(now - 420 * number - 70)
        each["metadata"] |= {"namespace": _TEAMS[number % len(_TEAMS)], "creationTimestamp": created}
        _decide(server, each, names)
    unplaced = [asking[i] for i in (3, 4, 5, 6)]
    pods = waiting(read_objects(inventory(*unplaced)), ResourceNames())
    record = server.extender.record
    snapshot, config = server.extender.snapshot, Configuration()
    assert snapshot is not None
    server.pods = pods
    source = RecordedCluster(snapshot, pods, {}, config)
    server.pending_lines = WaitingPods(source, record, Explainer(server, record, config)).lines()
    return server


def take_picture(path: Path, *, dark: bool = False) -> None:
    """Photograph the page of the made-up cluster."""
    with made_up_cluster() as server, Browser(1440, 900, dark=dark) as browser:
        browser.open(server.url)
        browser.eventually(lambda: "train-70b" in browser.text("#pending"), "who waits is drawn")
        browser.eventually(lambda: "speech-tts" in browser.text("#decisions"), "the decisions are drawn")
        time.sleep(0.5)
        browser.screenshot(path)


def _running(holder: Json, limits: Json, node_name: str) -> Json:
    """The pod of a holder, on its node for minutes or days."""
    running = pod(holder["name"], limits, on=node_name)
    hours = random.Random(holder["name"]).uniform(0.1, 90)
    running["metadata"]["namespace"] = holder["namespace"]
    running["status"]["startTime"] = _stamp(time.time() - 3600 * hours)
    return running


def _stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _decide(server: PageServer, asking: Json, names: list[str]) -> None:
    forever = float("inf")
    answer = server.extender.filter(names_body(asking, names), forever)
    server.extender.record.answered("filter", answer)
    passed = json.loads(answer.body)["NodeNames"]
    if passed:
        answer = server.extender.prioritize(names_body(asking, passed), forever)
        server.extender.record.answered("prioritize", answer)
