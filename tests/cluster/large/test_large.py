"""The large cluster: valid objects of real size that agree with each other."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import yaml

from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.wire.objects import assemble, read_objects
from tests.cluster.api.api_client import Client
from tests.cluster.api.api_paths import PODS
from tests.cluster.large import large
from tests.kube_objects import Json, inventory
from tests.pages import ROOT


def nodes_of(*objects: Json) -> dict[str, NodeInfo]:
    return dict(assemble(read_objects(inventory(*objects)), ResourceNames()))


def test_pods_with_gpus_are_where_the_reports_say_and_within_capacity() -> None:
    reports, pods = list(large.gpunodes(10, 2, 150)), list(large.pods(150, 10, 2))
    asking = [pod for pod in pods if "nvidia.com/gpu" in pod["spec"]["containers"][0]["resources"]["limits"]]
    bound = Counter(pod["spec"]["nodeName"] for pod in asking if pod["status"]["phase"] == "Running")
    assert (len(asking), bound.total()) == (15, 15)
    assert max(bound.values()) <= 2
    nodes = nodes_of(*large.nodes(10, 2), *reports, *pods)
    for name, info in nodes.items():
        assert info.report is not None
        held = [holder for device in info.report.devices for holder in device.holders]
        assert len(held) == bound[name]
        assert all(any(pod.is_holder(holder) for pod in info.pods) for holder in held)


def test_the_command_serves_a_cluster_that_changes() -> None:
    command = [sys.executable, "-m", "tests.cluster.api.api_server", "--nodes=3", "--pods=30"]
    with subprocess.Popen(
        [*command, "--events-per-second=200"], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as running:
        try:
            assert running.stdout is not None
            told = re.fullmatch(r"ready (\S+) kubeconfig=(\S+)\n", running.stdout.readline())
            assert told is not None
            config = yaml.safe_load(Path(told[2]).read_text())
            assert config["clusters"][0]["cluster"]["server"] == told[1]
            client = Client(told[1])
            listed = client.list(PODS)
            assert len(listed["items"]) == 30
            with client.watch(PODS, resourceVersion=listed["metadata"]["resourceVersion"]) as lines:
                seen = [lines.event() for _ in range(20)]
            assert {event["type"] for event in seen} == {"MODIFIED"}
            client.close()
        finally:
            running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    assert not Path(told[2]).exists()
