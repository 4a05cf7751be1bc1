"""The gangs of a cluster, from their pods."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from scheduler_ext.core.request.gang_request import GangKey, GangRequest, InvalidGang
from scheduler_ext.features.gangs.planning.gang import Gang, Member, MemberState, gangs_of
from scheduler_ext.features.gangs.wire.gang_pod import GangPod


class _WithKind(Protocol):
    @property
    def kind(self) -> Hashable:
        """Equal for pods that fit on the same nodes."""


Ask = TypeVar("Ask", bound=_WithKind)


@dataclass(frozen=True, slots=True)
class WaitingMembers(Generic[Ask]):
    """The pods that wait for GPUs: what each of them asks by uid, or why that is not modelled. `assumed` are
    the nodes of those that are bound, though the watch does not show it yet, and `binding` of those with a
    Binding in flight that has its room on the cluster. `foreign` are those that another component nominated.
    A gang with one of `refused`, which has the reasons, does not begin."""

    asks: Mapping[str, Ask]
    problems: Mapping[str, str] = field(default_factory=dict)
    assumed: Mapping[str, str] = field(default_factory=dict)
    binding: Mapping[str, str] = field(default_factory=dict)
    foreign: Collection[str] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assembled(Generic[Ask]):
    """Gangs of pods with GPUs in their order. `companions` are their pods without GPUs, which need no place
    and lose their gates with the others. `alone` belong to no gang, whether gated or not. `invalid` have a
    gang that cannot be read, with the reason. `unread` belong to groups whose objects are still to be read.
    `pods` has all pods of gangs by uid."""

    gangs: list[Gang[Ask]]
    companions: Mapping[GangKey, list[GangPod]]
    alone: list[GangPod]
    invalid: list[tuple[GangPod, str]]
    unread: list[GangPod]
    pods: Mapping[str, GangPod]

    def is_of_gang(self, uid: str) -> bool:
        """Whether a pod is planned with a gang, and not alone."""
        return uid in self.pods


def assemble(
    pods: Iterable[GangPod],
    gang_request_of: Callable[[GangPod], GangRequest | InvalidGang | None],
    waiting: WaitingMembers[Ask],
    duration_s: Callable[[str], float | None],
) -> Assembled[Ask]:
    """The gangs of these pods. `gang_request_of` raises LookupError where the object of a group is still to
    be read. A pod of the watch that is not yet known as waiting comes later."""
    members: list[tuple[GangRequest, Member[Ask]]] = []
    companions: dict[GangKey, list[GangPod]] = {}
    problems: dict[GangKey, str] = {}
    found: Assembled[Ask] = Assembled([], companions, [], [], [], {})
    kept: dict[str, GangPod] = {}
    named: list[tuple[GangRequest, GangPod]] = []
    for pod in pods:
        try:
            gang_request = gang_request_of(pod)
        except LookupError:
            kept[pod.uid] = pod
            found.unread.append(pod)
            continue
        if gang_request is None:
            found.alone.append(pod)
            continue
        kept[pod.uid] = pod
        if isinstance(gang_request, InvalidGang):
            found.invalid.append((pod, gang_request.message))
            continue
        if pod.state is not None:
            named.append((gang_request, pod))
    named = _of_last_runs(named)
    for gang_request, pod in named:
        if not pod.asks_gpu:
            companions.setdefault(gang_request.key, []).append(pod)
        elif (problem := waiting.problems.get(pod.uid)) is not None and pod.node is None:
            text = f"pod {pod.name}: {problem}"
            found.invalid.append((pod, text))
            problems.setdefault(gang_request.key, text)
        elif (member := _member(pod, waiting, duration_s)) is not None:
            members.append((gang_request, member))
            if (refusal := waiting.refused.get(pod.uid)) is not None:
                problems.setdefault(gang_request.key, f"pod {pod.name}: {refusal}")
    gangs = [_whole(gang, companions, problems) for gang in gangs_of(members)]
    further = [uid for gang in gangs for uid in _further(gang, kept)]
    gangs = [_without(gang, further) for gang in gangs]
    found.alone.extend(kept.pop(uid) for uid in further)
    found.alone.extend(_without_gpus(named, companions))
    return replace(found, gangs=gangs, pods=kept)


def _of_last_runs(named: Sequence[tuple[GangRequest, GangPod]]) -> list[tuple[GangRequest, GangPod]]:
    """These without the pods that ended well in former runs of their gang: a CronJob's pods have one gang in
    all of its runs. These are pods of other owners, once they or the others are a whole gang."""
    ended: dict[GangKey, list[GangPod]] = {}
    owners: dict[GangKey, list[str]] = {}
    sizes = {gang_request.key: gang_request.size for gang_request, _ in named}
    for gang_request, pod in named:
        if pod.state is MemberState.DONE:
            ended.setdefault(gang_request.key, []).append(pod)
        else:
            owners.setdefault(gang_request.key, []).append(_owner(pod))
    former: set[str] = set()
    for key, pods in ended.items():
        others, size = owners.get(key, []), sizes[key]
        gone = [pod for pod in pods if not _owner(pod) or _owner(pod) not in others]
        gone.sort(key=lambda pod: pod.created_at)
        count = len(gone) if len(others) >= size else len(gone) // size * size
        former.update(pod.uid for pod in gone[:count])
    return [(gang_request, pod) for gang_request, pod in named if pod.uid not in former]


def _without_gpus(
    named: Sequence[tuple[GangRequest, GangPod]], companions: Mapping[GangKey, list[GangPod]]
) -> list[GangPod]:
    """The pods of whole gangs that ask no GPUs: they need no places, and no member starts them."""
    sizes = {gang_request.key: gang_request.size for gang_request, _ in named}
    asking = {gang_request.key for gang_request, pod in named if pod.asks_gpu}
    whole = [pods for key, pods in companions.items() if key not in asking and len(pods) >= sizes[key]]
    return [pod for pods in whole for pod in pods]


def _further(gang: Gang[Ask], pods: Mapping[str, GangPod]) -> list[str]:
    """The pods that a gang which runs whole has got since, from those who made the others: none of them waits
    for another, and no GPU for them. In one domain with the others they have to be placed as members."""
    is_whole = gang.has_started and not any(each.is_unbound for each in gang.team)
    if not is_whole or gang.request.required_topology is not None:
        return []
    owners = {_owner(pods[each.uid]) for each in gang.bound} - {""}
    return [each.uid for each in gang.members if each.is_unbound and _owner(pods[each.uid]) in owners]


def _without(gang: Gang[Ask], uids: Collection[str]) -> Gang[Ask]:
    members = tuple(each for each in gang.members if each.uid not in uids)
    return gang if len(members) == len(gang.members) else replace(gang, members=members)


def _owner(pod: GangPod) -> str:
    """The uid of the controller of a pod; empty without one."""
    owners = (pod.named.metadata.owner_references if pod.named.metadata is not None else None) or ()
    return next((owner.uid or "" for owner in owners if owner.controller), "")


def _member(
    pod: GangPod, waiting: WaitingMembers[Ask], duration_s: Callable[[str], float | None]
) -> Member[Ask] | None:
    assert pod.state is not None
    state, node, ask = pod.state, pod.node, waiting.asks.get(pod.uid)
    if pod.uid in waiting.assumed and node is None:
        state, node = MemberState.BOUND, waiting.assumed[pod.uid]
    if state in (MemberState.GATED, MemberState.WAITING):
        if ask is None:
            return None
        node = waiting.binding.get(pod.uid, pod.nominated)
    binding = state is MemberState.WAITING and pod.uid in waiting.binding
    return Member(
        pod.uid,
        ask,  # type: ignore[arg-type]  # only members without a node are asked about
        state,
        pod.priority,
        pod.created_at,
        node,
        pod.deadline,
        duration_s(pod.uid),
        ask.kind if ask is not None else None,
        pod.preempts,
        state is MemberState.WAITING and pod.uid in waiting.foreign and not binding,
        binding,
        None if pod.refusal is None else pod.refusal._replace(text=f"pod {pod.name}: {pod.refusal.text}"),
    )


def _whole(
    gang: Gang[Ask], companions: Mapping[GangKey, list[GangPod]], problems: Mapping[GangKey, str]
) -> Gang[Ask]:
    """The gang without its companions, which count as members that exist."""
    beside = len(companions.get(gang.key, ()))
    gang_request = replace(gang.request, size=max(1, gang.request.size - beside))
    return replace(gang, request=gang_request, problem=gang.problem or problems.get(gang.key))
