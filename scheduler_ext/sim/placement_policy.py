"""The interface of a placement policy: nodes in; a score and a GPU for each of them out."""

from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler_ext.core.cycle.policy import SchedulingPolicy as Knobs
from scheduler_ext.core.node.columns import Floats, Ints
from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind
from scheduler_ext.sim.world import Cluster, NodesView, World

# The rule by which each policy runs with the ties it was published with.
PUBLISHED_TIES = "published"


class Evaluation(NamedTuple):
    """The result for each node, `[node]`."""

    # Higher is better, -inf does not fit.
    score: Floats
    # The GPU for a share, arbitrary for other pods.
    slot: Ints


@dataclass(frozen=True, slots=True)
class Target:
    """The knowledge of a policy in advance. `knobs` are for the default policy alone, but for the values of
    models, which `cluster` has for all."""

    cluster: Cluster
    workload: Workload
    seed: int = 0
    knobs: Knobs = field(default_factory=Knobs)


class Policy:
    """Base of the policies: a choice of nodes from the pod, the nodes and the expected workload. A node's
    evaluation may depend only on that node, the kind, the workload and the phase, because it is kept until
    the node changes; `of_cluster` is for the rest."""

    name: str
    # The choice among equally good nodes that the policy was published with: "first" or "random", which is
    # kube-scheduler's.
    published_ties: str = "random"
    # Whether this choice is the policy itself, so that a run cannot replace it.
    fixed_ties: bool = False

    def __init__(self, target: Target) -> None:
        cluster = target.cluster
        # The divisors of amounts: those of the largest node, as in the comparison of the FGD paper.
        self._largest_cpu_milli = max(int(cluster.cpu_milli.max(initial=0)), 1)
        self._largest_gpu_milli = max(int(cluster.gpus.max(initial=0)), 1) * GPU_MILLI

    def ties_under(self, rule: str) -> str:
        """The choice among equals in a run, "first" or "random"; `rule` is as in Settings."""
        return self.published_ties if self.fixed_ties or rule == PUBLISHED_TIES else rule

    def retarget(self, workload: Workload) -> None:
        """Expect another workload from now on."""

    def phase(self, world: World) -> int:
        """A number that changes with the state of the whole cluster if all evaluations do: they are kept for
        each phase."""
        return 0

    def resolution(self, kind: PodKind, world: World) -> float:
        """Scores that differ by less are equally good."""
        return 0.0

    def of_cluster(self, kind: PodKind, world: World) -> Floats | None:
        """What the state of the whole cluster adds to the scores of nodes, `[node]`; None for nothing."""

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        """Score the nodes; all have the CPU, the memory and the GPUs."""
        raise NotImplementedError
