"""A plan as plain JSON values, and in sentences."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any

from scheduler_ext.core.gpu.value_table import DIGITS
from scheduler_ext.core.intree import OTHER_NODES
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.constraints import ANNOTATION_PREFIX
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.explain.explain import API_VERSION
from scheduler_ext.explain.in_words import devices as devices_in_words
from scheduler_ext.explain.in_words import shortfall
from scheduler_ext.explain.ineffective import held_room
from scheduler_ext.features.defrag.executor import Execution
from scheduler_ext.features.defrag.movable import MovablePod
from scheduler_ext.features.defrag.moves import Hold, Move
from scheduler_ext.features.defrag.plan import DefragPlan, PodOutcome, doubt, gpus_in_words
from scheduler_ext.whatif.whatif import name_of
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.pod.pod_identity import pod_name
from scheduler_ext.wire.pod.pod_needs import not_modelled

_Json = dict[str, Any]
# What a pod holds of a GPU that is shared in this way, for people.
_SHARING = {
    "none": "a GPU of its own",
    "time-slicing": "a time-sliced GPU",
    "mps": "a part of a GPU by MPS",
    "mig": "a MIG instance in place of a GPU",
}


def plan_json(plan: DefragPlan, held: Mapping[str, Sequence[str]], config: Configuration) -> _Json:
    """The DefragmentationPlan. `held` are the GPUs that each moved pod holds now, by uid."""
    moves = [_move(move, outcome, held, plan.nodes) for outcome in plan.outcomes for move in outcome.moves]
    return {
        "apiVersion": API_VERSION,
        "kind": "DefragmentationPlan",
        "currency": config.cost.currency,
        "fits": plan.complete,
        "pods": [_outcome(outcome) for outcome in plan.outcomes],
        "moves": moves,
        "alsoFit": list(plan.also_fit),
        "fragmentation": {
            when: {"unallocatedGpus": round(idle, 2), "unusableGpus": round(unusable, 2)}
            for when, (idle, unusable) in (("before", plan.before), ("after", plan.after))
        },
        "movable": plan.movable,
        "staying": [{"reason": reason, "pods": count} for reason, count in plan.staying.most_common()],
        "notes": [
            *starmap(held_room, plan.rooms),
            *notes(plan, config),
            *_changes_of_sharing(plan.moves, plan.nodes),
        ],
        "execution": None,
    }


def _move(
    move: Move, outcome: PodOutcome, held: Mapping[str, Sequence[str]], nodes: Mapping[str, Node]
) -> _Json:
    pod = move.pod
    return {
        "pod": name_of(pod.bound),
        "uid": pod.uid,
        "owner": {"kind": pod.owner.kind, "name": pod.owner.name},
        "priority": pod.bound.priority,
        "valueAtRisk": round(pod.value_at_risk, DIGITS),
        "from": {
            "node": pod.node,
            "devices": list(held.get(pod.uid, ())),
            "sharing": sharing(nodes[pod.node], pod.again.request),
        },
        "to": {
            "node": move.to,
            "devices": list(move.devices),
            "sharing": sharing(nodes[move.to], pod.again.request),
        },
        "frees": freed(pod),
        "for": outcome.wanted.name,
        "holds": [{"node": hold.node, "for": _held_for(hold, outcome)} for hold in move.holds],
    }


def _held_for(hold: Hold, outcome: PodOutcome) -> str:
    wanted = outcome.wanted
    return wanted.name if hold.pod_info.uid == wanted.pod_info.uid else pod_name(hold.pod_info.pod)


def freed(pod: MovablePod) -> _Json:
    """The amounts that a move frees, by resource."""
    request = pod.bound.request
    amounts = {ask.resource: ask.count for ask in request.units}
    if request.shares is not None:
        amounts["memoryMiB"] = request.shares.total_mib
    return amounts


def _outcome(outcome: PodOutcome) -> _Json:
    refusal = outcome.refusal or {}
    stuck = outcome.stuck
    return {
        "pod": outcome.wanted.name if outcome.wanted.gpus is None else None,
        "gpus": outcome.wanted.gpus,
        "node": outcome.node,
        "moves": len(outcome.moves),
        "reason": refusal.get("reason"),
        "nearestMiss": refusal.get("nearestMiss"),
        "nearestNode": refusal.get("nearestNode"),
        "nearestPlan": None
        if stuck is None
        else {
            "node": stuck.node,
            "pods": [name_of(pod.bound) for pod in stuck.pods],
            "stuck": name_of(stuck.pod.bound) if stuck.pod is not None else None,
        },
        "exhausted": outcome.exhausted,
        "notModelled": not_modelled(outcome.wanted.pod_info.pod),
    }


def notes(plan: DefragPlan, config: Configuration) -> list[str]:
    """Remarks for people who execute the plan."""
    found = []
    for outcome in [each for each in plan.outcomes if each.node is not None]:
        if (problem := doubt(outcome, config)) is not None:
            found.append(problem)
        wanted = outcome.wanted
        features = [each for each in not_modelled(wanted.pod_info.pod) if each != "scheduling gates"]
        found += [f"not modelled here for pod {wanted.name}: {feature}" for feature in features]
    jobs = sorted({move.pod.owner.name or "" for move in plan.moves if move.pod.owner.kind == "Job"})
    found += [
        f"Job {name}: the restart counts against its backoffLimit, unless its podFailurePolicy ignores "
        "DisruptionTarget"
        for name in jobs
    ]
    moved = Counter(feature for move in plan.moves for feature in not_modelled(move.pod.again.pod))
    found += [
        f"not modelled here for {count} of the moved pods: {feature}" for feature, count in moved.items()
    ]
    return found


def _changes_of_sharing(moves: Sequence[Move], nodes: Mapping[str, Node]) -> Iterator[str]:
    """A sentence for each pod that moves to GPUs that are shared in another way; a pod that accepts any
    sharing needs none."""
    for move in moves:
        request = move.pod.again.request
        before, after = (sharing(nodes[name], request) for name in (move.pod.node, move.to))
        if before != after and request.sharing != "any":
            remedy = ""
            if before == "none" and after != "mig":
                remedy = f"; {ANNOTATION_PREFIX}sharing: exclusive in its template keeps it from shared GPUs"
            yield (
                f"pod {name_of(move.pod.bound)} leaves {_SHARING[before]} on {move.pod.node} for "
                f"{_SHARING[after]} on {move.to}{remedy}"
            )


def sharing(node: Node, request: GpuRequest) -> str:
    """How a node hands out what a request asks: `none` for GPUs or MIG instances of a pod's own,
    `time-slicing`, `mps`, `mig` for instances that are handed out as GPUs, or `memory` for shares."""
    source = node.info.report or node.info.estimate
    if request.shares is not None:
        return "memory"
    if source is not None and source.sharing_strategy != "none":
        return source.sharing_strategy
    whole = {ask.resource for ask in request.whole}
    units = (unit for slot in node.state.slots for unit in slot.units)
    return "mig" if any(unit.model.is_mig_slice for unit in units if unit.resource in whole) else "none"


def verdicts(answer: _Json) -> Iterator[str]:
    """A sentence or two for each waiting pod."""
    for each in answer["pods"]:
        who = f"Pod {each['pod']}" if each["gpus"] is None else gpus_in_words(each["gpus"])
        if each["node"] is None:
            yield f"{who}: no plan. {_why_not(each, answer)}"
        elif not each["moves"]:
            yield f"{who}: fits already, on node {each['node']}; no move is needed."
        else:
            moves = "1 move" if each["moves"] == 1 else f"{each['moves']} moves"
            yield f"{who}: fits on node {each['node']} after {moves}."


def _why_not(each: _Json, answer: _Json) -> str:
    parts = []
    if each["gpus"] is not None and each["reason"] == OTHER_NODES:
        # The only nodes that the pod of a number leaves out.
        parts.append(f"Nearest now: node {each['nearestNode']} offers MIG instances in place of GPUs.")
    elif each["reason"] is not None:
        miss = f" ({shortfall(each['nearestMiss'])})" if each["nearestMiss"] is not None else ""
        where = f" on {each['nearestNode']}" if each["nearestNode"] else ""
        parts.append(f"Nearest now: {each['reason']}{where}{miss}.")
    near = each["nearestPlan"]
    if near is not None and near["stuck"] is not None:
        parts.append(
            f"It would fit on node {near['node']} without {', '.join(near['pods'])}, but {near['stuck']} "
            "would find no other place."
        )
    elif near is not None:
        parts.append(f"Node {near['node']} would still refuse it after the moves.")
    else:
        parts.append("It would fit on no node, even if all pods that may be moved left.")
    if answer["staying"]:
        stay = (f"{these['pods']} may not be moved: each {these['reason']}" for these in answer["staying"])
        parts.append(f"Of the pods with GPUs, {'; '.join(stay)}.")
    if each["exhausted"]:
        parts.append("The search ended at its bound; --thorough searches longer.")
    return " ".join(parts)


def place(where: _Json) -> str:
    """A node and its GPUs."""
    found = where["devices"]
    if found and isinstance(found[0], str):
        return f"{where['node']} {', '.join(found)}"
    known = [each for each in found if each.get("uuid")]
    return f"{where['node']} {devices_in_words(known)}" if known else str(where["node"])


def amounts(freed_amounts: _Json) -> str:
    """What a move frees."""
    words = [f"{count} {name}" for name, count in freed_amounts.items() if name != "memoryMiB"]
    return ", ".join([*words, *(f"{mib} MiB" for name, mib in freed_amounts.items() if name == "memoryMiB")])


def execution_json(execution: Execution) -> _Json:
    """What an execution did."""
    return {
        "done": [
            {"pod": name_of(done.move.pod.bound), "replacedBy": done.replaced_by, "node": done.node}
            for done in execution.done
        ],
        "notDone": [name_of(move.pod.bound) for move in execution.pending],
        "nodes": dict(execution.nodes),
        "problem": execution.problem,
    }


def summary(execution: _Json) -> str:
    """One sentence on what was done and what was not."""
    done = ", ".join(
        f"{each['pod']} is now {each['replacedBy']} on {each['node']}" for each in execution["done"]
    )
    if execution["problem"] is None:
        return f"Done: {done or 'nothing had to be moved'}."
    rest = ", ".join(execution["notDone"])
    return (
        f"Stopped: {execution['problem']}; done: {done or 'nothing'}; not done: {rest or 'nothing'}; no room "
        "is held any more, and no other pod will be evicted."
    )
