"""The interface of a placement policy: nodes in; a score and a GPU for each of them out."""

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
    """``score`` ``[node]``: higher is better, -inf does not fit; ``slot`` ``[node]``: the GPU for a share,
    arbitrary for other pods."""

    score: Floats
    slot: Ints


@dataclass(frozen=True, slots=True)
class Target:
    """The knowledge of a policy in advance: the cluster's constants, the expected workload, a seed, and the
    configuration of the server, for the default policy alone."""

    cluster: Cluster
    workload: Workload
    seed: int = 0
    knobs: Knobs = field(default_factory=Knobs)


class Policy(Protocol):
    """A choice of nodes from the pod, the nodes and the expected workload."""

    name: str
    # The tie rule of the policy ("first" or "random"); None leaves it to the scheduler.
    ties: str | None
    # Whether a node's evaluation depends only on that node, the kind and the workload.
    local: bool
    # Whether it marks nodes without the GPUs (by -inf); otherwise it only sees nodes that have them.
    filters: bool
    # Whether its scores reach the scheduler as 0 to 10, like an extender's.
    points: bool

    def retarget(self, workload: Workload) -> None:
        """Expect another workload from now on."""

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        """Score the nodes; all have the CPU and the memory."""


class Reference:
    """Base of most policies: each node is scored by itself, without a forecast."""

    ties: str | None = None
    local = True
    filters = False
    points = False

    def __init__(self, target: Target) -> None:
        cluster = target.cluster
        # The divisors of amounts: those of the largest node, as in the comparison of the FGD paper.
        self._largest_cpu_milli = max(int(cluster.cpu_milli.max(initial=0)), 1)
        self._largest_gpu_milli = max(int(cluster.gpus.max(initial=0)), 1) * GPU_MILLI

    def retarget(self, workload: Workload) -> None:
        """No effect."""


Factory = Callable[[Target], Policy]
