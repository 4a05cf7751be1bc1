"""Whether the rest of a plan still holds on a cluster as it is now."""

from collections.abc import Sequence

from scheduler_ext.features.defrag.movable import Rules, movable_pods
from scheduler_ext.features.defrag.moves import Hold, Move
from scheduler_ext.features.defrag.moving_cluster import MovingCluster
from scheduler_ext.features.defrag.plan import PlacementGoal, waiting_pod
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.pod.pod_identity import pod_uid


def still_waiting(wanted: PlacementGoal, state: ClusterState) -> tuple[str | None, str | None]:
    """(node, problem) of the waiting pod: the node if it has one by now, or why it waits no longer."""
    if wanted.gpus is not None:
        return None, None
    for pod in state.objects.pods:
        if pod_uid(pod) == wanted.pod_info.uid:
            return (pod.spec.node_name if pod.spec is not None else None) or None, None
    return None, f"pod {wanted.name} does not wait any more: it was deleted or has ended"


def broken(
    wanted: PlacementGoal,
    node: str,
    moves: Sequence[Move],
    state: ClusterState,
    config: Configuration,
    rules: Rules,
) -> str | None:
    """Why these moves, in their order, do not let the pod onto the node any more; None if they do. A pod may
    go to another node than planned."""
    cluster = MovingCluster(state, config)
    pods, staying = movable_pods(state, cluster, config, rules)
    by_uid = {pod.uid: pod for pod in pods}
    pod_info = wanted.pod_info
    if wanted.gpus is None:
        now = next((pod for pod in state.objects.pods if pod_uid(pod) == pod_info.uid), None)
        pod_info = waiting_pod(now, state, config).pod_info if now is not None else pod_info
    if node not in cluster.infos:
        return f"node {node} is gone"
    mark, spent = cluster.mark(), dict[int, int]()
    devices = next((each.devices for move in moves for each in move.holds if each.node == node), {})
    room = Hold(node, pod_info, devices)
    held: list[Hold] = [room]
    cluster.denominate(pod_info.uid)
    cluster.hold(node, pod_info, devices)
    for move in moves:
        name = f"{move.pod.bound.namespace}/{move.pod.bound.name}"
        pod = by_uid.get(move.pod.uid)
        if pod is None or pod.node != move.pod.node:
            why = staying.get(move.pod.uid, "is gone, or on another node")
            return f"pod {name} {why}"
        for i in pod.budgets:
            spent[i] = spent.get(i, 0) + 1
            if spent[i] > state.objects.budgets[i].allowed:
                return (
                    f"PodDisruptionBudget {state.objects.budgets[i].name} does not allow to evict {name} now"
                )
        _hold_as(cluster, held, [room, *(each for each in move.holds if each.node != node)])
        cluster.evict(pod.node, [pod.uid])
        to = cluster.best(pod.again)
        if to is None:
            return f"pod {name} would find no other place now"
        cluster.bind(pod.again, to)
    fits = cluster.admits(pod_info, node)
    cluster.rollback(mark)
    return None if fits else f"{wanted.name} would not fit on node {node} after the moves now"


def _hold_as(cluster: MovingCluster, held: list[Hold], wanted: Sequence[Hold]) -> None:
    for hold in [each for each in held if each not in wanted]:
        cluster.release(hold.node, hold.pod_info.uid)
        held.remove(hold)
    for hold in [each for each in wanted if each not in held]:
        cluster.hold(hold.node, hold.pod_info, hold.devices)
        held.append(hold)


def names(moves: Sequence[Move]) -> str:
    """The pods of these moves, for people."""
    return ", ".join(f"{move.pod.bound.namespace}/{move.pod.bound.name}" for move in moves)
