"""CONTRIBUTING's recipes: by exactly their files, an addition works, is explained and is documented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.recipes.scratch import Scratch, recipe

pytestmark = pytest.mark.process

_SIMULATED = "scheduler_ext/sim/state_by_state.py"
_SIMULATOR_TEST = "tests/sim/test_state_by_state.py"

_FILTER = '''"""Is the node important enough for the pod?"""

from __future__ import annotations

from scheduler_ext.core.framework.criterion import Filter, View
from scheduler_ext.core.framework.refusal import NearestMiss
from scheduler_ext.core.framework.refusal import Reason
from scheduler_ext.core.node.columns import Bools
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest


class OnDemand(Filter):
    """Refuses spot nodes to pods of very high priority."""

    name = "on-demand"
    reason = Reason(
        "node(s) were spot capacity",
        "The node may be taken away at any time, and the pod's priority is above 1,000,000.",
        "Lower the pod's priority, or add on-demand nodes.",
    )

    def applies(self, request: GpuRequest) -> bool:
        return request.asks_gpu and request.priority > 1_000_000

    def passes(self, view: View) -> Bools:
        return ~view.snapshot.node.spot

    def miss(self, view: View, node: Node) -> NearestMiss:
        return NearestMiss(self.name, None, "on-demand", "spot", "capacity")

    def sentence(self, miss: NearestMiss, node: Node) -> str:
        return f"{node.info.name} is {miss.have} capacity, needs {miss.needed}"
'''
_FILTER_TEST = '''"""Spot nodes and very important pods."""

from scheduler_ext.core.filters.on_demand import OnDemand
from scheduler_ext.core.framework.criterion import View
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.request import GpuRequest, UnitAsk
from tests.core.reported import device
from tests.strategies import snapshot_of

GPU = Report((device(0),))


def test_only_spot_nodes_are_refused() -> None:
    request = GpuRequest(units=(UnitAsk("nvidia.com/gpu", 1),), priority=2_000_000)
    snapshot = snapshot_of([NodeInfo("a", report=GPU), NodeInfo("b", report=GPU, spot=True)])
    passed = OnDemand().passes(View(request, snapshot))
    assert passed[snapshot.state_of[snapshot.rows(["a", "b"])]].tolist() == [True, False]
'''
_SCORE = '''"""Nodes with many GPUs for pods of very high priority."""

from __future__ import annotations

import numpy as np

from scheduler_ext.core.framework.criterion import Scoring
from scheduler_ext.core.node.columns import Floats


class LargeNode:
    """The more GPUs a node has, up to 16, the better."""

    name = "large-node"

    def applies(self, scoring: Scoring) -> bool:
        return scoring.request.asks_gpu and scoring.request.priority > 1_000_000

    def value(self, scoring: Scoring) -> Floats:
        return np.clip(scoring.snapshot.node.gpus / 16.0, 0.0, 1.0)
'''
_SCORE_TEST = '''"""Large nodes and very important pods."""

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.policy import Policy
from scheduler_ext.core.request.request import GpuRequest, UnitAsk
from dataclasses import replace

from tests.core.reported import device, node
from tests.strategies import snapshot_of


def test_the_larger_node_is_better() -> None:
    request = GpuRequest(units=(UnitAsk("nvidia.com/gpu", 1),), priority=2_000_000)
    small_node, large_node = replace(node(device(0)), name="a"), replace(node(device(0), device(1)), name="b")
    snapshot = snapshot_of([small_node, large_node])
    totals = filter_nodes(request, snapshot, Policy({"large-node": 1.0})).totals
    small, large = totals[snapshot.state_of[snapshot.rows(["a", "b"])]]
    assert (small, large) == (1 / 16, 2 / 16)
'''

_ANNOTATION_TEST = '''"""Pods that avoid spot nodes."""

from scheduler_ext.core.filters.change_in_progress import ChangeInProgress
from scheduler_ext.core.framework.criterion import View
from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.request import GpuRequest, UnitAsk
from tests.core.reported import device
from tests.strategies import snapshot_of

GPU = Report((device(0),))


def test_a_pod_that_avoids_spot_nodes() -> None:
    request = GpuRequest(units=(UnitAsk("nvidia.com/gpu", 1),), avoids_spot=True)
    snapshot = snapshot_of([NodeInfo("a", report=GPU), NodeInfo("b", report=GPU, spot=True)])
    passed = ChangeInProgress().passes(View(request, snapshot))
    assert passed[snapshot.state_of[snapshot.rows(["a", "b"])]].tolist() == [True, False]
'''

_COUNTER_TEST = '''"""Changes of PodDisruptionBudgets."""

from scheduler_ext.cluster.inventory.budget_handler import BudgetHandler
from scheduler_ext.cluster.client.transport import ServerClock
from scheduler_ext.wire.kube import PodDisruptionBudget
from tests.exposition import exposition


def test_changes_are_counted() -> None:
    handler = BudgetHandler()
    handler.seen([PodDisruptionBudget(), PodDisruptionBudget()], ServerClock(0.0, 0.0))
    (family,) = [each for each in exposition() if each.name == "gpu_extender_budget_changes"]
    assert [each.value for each in family.samples] == [2]
'''


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch.copied(tmp_path)


def _explained(scratch: Scratch, status: int = 0, **pod: Any) -> dict[str, Any]:
    """The explanation of a pod of very high priority on two nodes of an H100, one of them spot capacity."""
    objects = [
        {
            "apiVersion": "gpu.scheduler-ext.io/v1alpha1",
            "kind": "GPUNode",
            "metadata": {"name": name},
            "status": {
                "devices": [
                    {
                        "uuid": f"GPU-{name}-{index}",
                        "index": index,
                        "model": "H100-80GB",
                        "memory": {"totalMiB": 81559, "usedMiB": 0},
                        "health": {"state": "Healthy"},
                    }
                    for index in range(gpus)
                ],
            },
        }
        for name, gpus in (("small", 1), ("large", 8))
    ]
    objects += [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": {"nvidia.com/gpu": str(gpus), "pods": "110"}},
        }
        for name, gpus, labels in (
            ("small", 1, {"karpenter.sh/capacity-type": "spot"}),
            ("large", 8, {"karpenter.sh/capacity-type": "on-demand"}),
        )
    ]
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod"} | pod.pop("metadata", {}),
        "spec": {
            "priority": 2_000_000,
            "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        }
        | pod,
    }
    (scratch.root / "objects.json").write_text(
        json.dumps({"kind": "List", "apiVersion": "v1", "items": objects})
    )
    (scratch.root / "pod.json").write_text(json.dumps(manifest))
    command = ("explain", "-f", "pod.json", "--inventory", "objects.json", "-o", "json")
    answer: dict[str, Any] = json.loads(scratch.run("-m", "scheduler_ext", *command, status=status))
    return answer


def test_a_filter(scratch: Scratch) -> None:
    scratch.write("scheduler_ext/core/filters/on_demand.py", _FILTER)
    registry = "scheduler_ext/core/filters/__init__.py"
    scratch.insert(
        registry,
        "from scheduler_ext.core.filters.sharing",
        "from scheduler_ext.core.filters.on_demand import OnDemand\n",
    )
    scratch.insert(registry, "    Model(),\n", "    OnDemand(),\n")
    scratch.insert(
        "docs/reference/reasons.md",
        "| `node(s) didn't match the requested GPU model`",
        "| `node(s) were spot capacity` | The node may be taken away at any time, and the pod's priority is"
        " above 1,000,000. | Lower the pod's priority, or add on-demand nodes. |\n",
    )
    scratch.insert(
        "tests/oracle.py",
        '    "model": model,\n',
        '    "on-demand": lambda state, request: not (state.spot and request.priority > 1_000_000),\n',
    )
    scratch.write("tests/core/filters/test_on_demand.py", _FILTER_TEST)
    scratch.insert("CHANGELOG.md", "### ", "- Very important pods avoid spot nodes.\n\n")
    scratch.insert(_SIMULATED, '    *("model-preference"', '    "on-demand",\n')
    scratch.follows(recipe("A filter"), most=7)
    nodes = {node["node"]: node for node in _explained(scratch)["nodes"]}
    assert nodes["large"]["verdict"] == "fits"
    assert nodes["small"]["reason"] == "node(s) were spot capacity"
    assert nodes["small"]["nearestMiss"]["needed"] == "on-demand"
    scratch.passes("tests/core/filters", "tests/test_docs.py", "tests/cli/test_golden.py", _SIMULATOR_TEST)


def test_a_score(scratch: Scratch) -> None:
    scratch.write("scheduler_ext/core/scores/large_node.py", _SCORE)
    registry = "scheduler_ext/core/scores/__init__.py"
    scratch.insert(
        registry,
        "from scheduler_ext.core.scores.preferences",
        "from scheduler_ext.core.scores.large_node import LargeNode\n",
    )
    scratch.insert(registry, "    Spot(),\n", "    LargeNode(),\n")
    scratch.insert(registry, '    "spot": ', '    "large-node": 0.1,\n')
    scratch.insert(
        "docs/reference/configuration.md",
        "| `spot` |",
        "| `large-node` | `0.1` | priority above 1,000,000 | nodes with many GPUs |\n",
    )
    scratch.insert(
        "config/default.yaml",
        "    # Spot nodes for",
        "    # Large nodes for very high priorities.\n    large-node: 0.1\n",
    )
    scratch.insert(
        "tests/score_oracle.py",
        '    "spot": spot,\n',
        '    "large-node": lambda state, _: min(state.gpus / 16, 1.0),\n',
    )
    scratch.write("tests/core/scores/test_large_node.py", _SCORE_TEST)
    scratch.insert("CHANGELOG.md", "### ", "- Very important pods prefer large nodes.\n\n")
    scratch.insert(_SIMULATED, '    *("model-preference"', '    "large-node",\n')
    scratch.follows(recipe("A score"), most=8)
    nodes = {node["node"]: node for node in _explained(scratch)["nodes"]}
    terms = {term["name"]: term["value"] for term in nodes["large"]["terms"]}
    assert terms["large-node"] == 0.5
    scratch.passes("tests/core/scores", "tests/test_docs.py", "tests/test_shipped_config.py", _SIMULATOR_TEST)


def test_an_annotation(scratch: Scratch) -> None:
    scratch.insert(
        "scheduler_ext/core/request/wishes.py",
        "\n\n# annotation key -> ",
        '    avoids_spot: bool = _wish("spot", lambda text: '
        '_one_of("avoid", "any")(text) == "avoid", False)\n',
    )
    scratch.insert(
        "scheduler_ext/core/filters/change_in_progress.py",
        "        return ~view.snapshot.node.changing\n",
        "        if view.request.avoids_spot:\n"
        "            return ~(view.snapshot.node.changing | view.snapshot.node.spot)\n",
    )
    scratch.insert(
        "scheduler_ext/core/filters/change_in_progress.py",
        "    def passes(",
        '    relaxed: ClassVar = {"spot": lambda _request, _trial: None}\n\n',
    )
    scratch.insert(
        "scheduler_ext/core/filters/change_in_progress.py",
        "from scheduler_ext.core.framework.criterion",
        "from typing import ClassVar\n\n",
    )
    scratch.insert(
        "tests/oracle.py",
        "    return not state.changing\n",
        "    if request.avoids_spot and state.spot:\n        return False\n",
    )
    scratch.insert(
        "docs/reference/annotations.md",
        "\nKubelet and the device plugin choose",
        "| `gpu.scheduler-ext.io/spot` | `avoid` or `any` | `avoid` refuses spot nodes |\n",
    )
    scratch.write("tests/core/request/test_spot_annotation.py", _ANNOTATION_TEST)
    scratch.insert("CHANGELOG.md", "### ", "- Pods can avoid spot nodes.\n\n")
    scratch.follows(recipe("An annotation"), most=6)
    annotations = {"gpu.scheduler-ext.io/spot": "avoid"}
    nodes = {
        node["node"]: node for node in _explained(scratch, metadata={"annotations": annotations})["nodes"]
    }
    assert (nodes["large"]["verdict"], nodes["small"]["verdict"]) == ("fits", "rejected")
    on_spot = {"karpenter.sh/capacity-type": "spot"}
    advice = _explained(scratch, 3, metadata={"annotations": annotations}, nodeSelector=on_spot)["advice"]
    assert any("without the annotation gpu.scheduler-ext.io/spot" in each.lower() for each in advice)
    annotations["gpu.scheduler-ext.io/spot"] = "avoided"
    assert "must be one of avoid, any" in str(_explained(scratch, 3, metadata={"annotations": annotations}))
    scratch.passes("tests/core/request", "tests/core/filters", "tests/test_docs.py")


def test_a_counter(scratch: Scratch) -> None:
    handlers = "scheduler_ext/cluster/inventory/budget_handler.py"
    scratch.insert(
        handlers,
        "from scheduler_ext.wire import kube",
        "from scheduler_ext.counters import Counter\n",
    )
    scratch.insert(
        handlers,
        "    _by_uid: dict[str, Budget]",
        '    changes = Counter("gpu_extender_budget_changes", "Changes of PodDisruptionBudgets.")\n\n',
    )
    scratch.insert(
        handlers,
        "        self._by_uid.update((self.key(item), kube.budget(item))",
        "        self.changes.inc(by=len(items))\n",
    )
    documented = "tests/test_docs.py"
    scratch.run("-m", "pytest", "-n0", "-p", "no:cacheprovider", documented, "-k", "metric", status=1)
    scratch.insert(
        "docs/reference/metrics.md",
        "| `gpu_extender_nudges_total` |",
        "| `gpu_extender_budget_changes_total` | counter | | changes of PodDisruptionBudgets |\n",
    )
    scratch.write("tests/cluster/test_budget_changes.py", _COUNTER_TEST)
    scratch.follows(recipe("A counter"), most=3)
    scratch.passes("tests/cluster/test_budget_changes.py", documented)
