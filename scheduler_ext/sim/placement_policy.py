"""What a placement policy is: nodes in, a score and a GPU for each of them out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from scheduler_ext.core.cycle.policy import Policy as Knobs
from scheduler_ext.core.node.columns import Floats, Ints
from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind
from scheduler_ext.sim.world import Cluster, NodesView


class Evaluation(NamedTuple):
    """``score``, ``[node]``: higher is better, -inf does not fit; ``slot``, ``[node]``: the GPU that a share
    would get, anything for other pods."""

    score: Floats
    slot: Ints


@dataclass(frozen=True, slots=True)
class Target:
    """What a policy may know beforehand: the cluster's constants, the workload it expects, a seed, and the
    knobs of the server, which no policy but the default has."""

    cluster: Cluster
    workload: Workload
    seed: int = 0
    knobs: Knobs = field(default_factory=Knobs)


class Policy(Protocol):
    """A way to choose nodes. It sees the pod, the nodes and the expected workload, never the future."""

    name: str
    # The tie rule that the policy is ("first" or "random"), None where it leaves that to the scheduler.
    ties: str | None
    # Whether a node's evaluation depends on nothing but that node, the kind and the workload.
    local: bool
    # Whether it says itself which nodes have the GPUs (by -inf); else it sees only nodes that have them.
    filters: bool
    # Whether its scores reach the scheduler as an extender's do, as 0 to 10.
    points: bool

    def retarget(self, workload: Workload) -> None:
        """Expect another workload from now on."""

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        """Score the nodes, all of which have the CPU and the memory."""


class Reference:
    """What most policies have in common: they look at each node by itself and expect nothing."""

    ties: str | None = None
    local = True
    filters = False
    points = False

    def __init__(self, target: Target) -> None:
        cluster = target.cluster
        # What amounts are divided by: the largest node's, as the FGD paper's comparison has it.
        self._largest_cpu_milli = max(int(cluster.cpu_milli.max(initial=0)), 1)
        self._largest_gpu_milli = max(int(cluster.gpus.max(initial=0)), 1) * GPU_MILLI

    def retarget(self, workload: Workload) -> None:
        """Nothing follows."""


Factory = Callable[[Target], Policy]
