"""Free amounts agree in the terminal, in JSON, on the page and in metrics."""

from __future__ import annotations

import json
import re
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from typing import Any

from hypothesis import given

from scheduler_ext.cli.inventory import print_inventory
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.node.state import resolve
from scheduler_ext.core.request.request import GpuRequest, UnitRequest
from scheduler_ext.features.page.overview import node_row
from scheduler_ext.views.listing import inventory_list
from scheduler_ext.wire.config import Configuration
from tests.core.reported import NAMES
from tests.free_memory import clusters_with_closed_parts
from tests.server.test_gpu_metrics import sample, told

FREE = "gpu_extender_device_memory_free_bytes"
CONFIG = Configuration()


def in_json(infos: list[NodeInfo]) -> dict[str, int]:
    """MiB by node, for nodes whose amount is known."""
    return {item["node"]: _sum(item) for item in inventory_list(infos, CONFIG)["items"] if _known(item)}


def _known(item: dict[str, Any]) -> bool:
    amounts = [each["memory"]["freeMiB"] for each in item["devices"]]
    return bool(amounts) and item["source"] == "report" and None not in amounts


def _sum(item: dict[str, Any]) -> int:
    return sum(int(each["memory"]["freeMiB"]) for each in item["devices"])


def in_the_terminal(infos: list[NodeInfo]) -> dict[str, int]:
    printed = StringIO()
    with redirect_stdout(printed):
        print_inventory(inventory_list(infos, CONFIG), wide=False)
    found = re.findall(r"^(\S+).* (\d+) of \d+ ", printed.getvalue(), re.MULTILINE)
    return {node: int(free) for node, free in found if node in in_json(infos)}


def on_the_page(infos: list[NodeInfo]) -> dict[str, int]:
    """The amounts that the page adds up, from the wire."""
    rows = [node_row(resolve(info, NAMES, 10), NAMES, CONFIG.memory.headroom_percent) for info in infos]
    sent = json.loads(json.dumps([row for row in rows if row is not None]))
    return {
        row[0]: sum(free)
        for row in sent
        if row[2] != "labels"
        and (free := [each[5] for _, _, devices in row[7] for each in devices])
        and None not in free
    }


def in_the_metrics(infos: list[NodeInfo]) -> dict[str, int]:
    """Nodes with a Missing agent have no series, which sums count as zero."""
    sums = dict.fromkeys(in_json(infos), 0)
    for labels, value in told(infos, "device").get(FREE, {}).items():
        if (node := dict(labels)["hostname"]) in sums:
            sums[node] += int(value) // 2**20
    return sums


@given(clusters_with_closed_parts())
def test_four_answers_are_one(infos: tuple[NodeInfo, ...]) -> None:
    expected = in_the_metrics(list(infos))
    assert in_json(list(infos)) == expected
    assert on_the_page(list(infos)) == expected
    assert in_the_terminal(list(infos)) == expected


def test_an_instance_held_on_an_unknown_gpu_is_free_on_none() -> None:
    request = GpuRequest(units=(UnitRequest("nvidia.com/mig-3g.40gb", 1, "3g.40gb"),))
    late = BoundPod("late", "default", "late", 0, request)
    infos = [replace(info, pods=(late,)) for info in sample() if info.name == "mig-a100-01"]
    free = told(infos)["gpu_extender_mig_instances_free"]
    in_metrics = {dict(labels)["profile"]: value for labels, value in free.items()}
    (item,) = inventory_list(infos, CONFIG)["items"]
    assert item["migFree"] == in_metrics
    assert in_metrics["3g.40gb"] == 0
