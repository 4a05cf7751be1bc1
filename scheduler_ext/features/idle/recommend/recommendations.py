"""Recommendations for the GPU memory that the containers of each workload ask, in the shape of VPA's. Nothing
is applied."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX, resource_from_profile
from scheduler_ext.core.gpu.share_memory import NOTHING_HELD, ShareMemory
from scheduler_ext.core.gpu.value_table import DIGITS
from scheduler_ext.explain.explain import API_VERSION
from scheduler_ext.features.idle.recommend.observed_peaks import SEVERAL_ASKS, ObservedContainer, observed
from scheduler_ext.features.idle.recommend.offers import Offer, offers
from scheduler_ext.features.idle.recommend.right_size import (
    AFTER_FAILURE,
    MARGIN,
    STEP_MIB,
    MemoryBounds,
    bounds,
    is_worth,
)
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.views.node_value import gpu_price
from scheduler_ext.wire.config import Configuration

NOT_PROMISED = "its node shares GPUs by time or MPS, which promises no amount of memory"
BY_INSTANCE = "its node offers MIG instances as whole GPUs: their size is chosen with the layout"
UNREPORTED = "no agent reports the GPUs of its node"
UNKNOWN_MEMORY = "the memory of its GPU is not known"
# GPUs that compute less than this may do for several pods; of pods whose GPUs compute more than the other,
# memory alone does not decide.
_QUIET_PERCENT = 20.0
_BUSY_PERCENT = 50.0
# Programs that reserve memory in advance take about nine tenths.
_RESERVED = 0.85
# Smaller differences are rounding errors.
_CENT = 0.01
_NOTHING: dict[str, Any] = {"memoryMiB": 0, "gpus": 0.0, "valuePerHour": 0.0}
_BOUNDS = ("target", "lowerBound", "upperBound", "uncappedTarget")


@dataclass(frozen=True, slots=True)
class _Ask:
    """What one container asks: `amount` of a resource. It can have `memory_mib` of one GPU or instance, and
    takes `gpus` GPUs, or a part of one, of a `model`, which `cost` so much per hour. Its pod wants at least
    a compute capability, (0, 0) if any will do."""

    resource: str
    amount: int
    memory_mib: int
    gpus: float
    cost: float
    model: str
    vendor: str = "nvidia"
    min_compute_capability: tuple[int, int] = (0, 0)


def recommendation_list(
    state: ClusterState, config: Configuration, now: float, min_age_s: float
) -> dict[str, Any]:
    """The RecommendationList of a cluster at a moment, as plain JSON values, by workload. Pods that are
    younger than `min_age_s` say only that a request is too small."""
    advisor = _Advisor(state, config, min_age_s)
    groups: dict[tuple[Any, ...], list[ObservedContainer]] = {}
    for each in observed(state, config.resource_names(), now):
        groups.setdefault((each.workload, each.container), []).append(each)
    workloads: dict[Any, list[dict[str, Any]]] = {}
    for (workload, container), seen in sorted(groups.items()):
        workloads.setdefault(workload, []).append(advisor.of(container, seen))
    return {
        "apiVersion": API_VERSION,
        "kind": "RecommendationList",
        "currency": config.cost.currency,
        "margin": MARGIN,
        "stepMiB": STEP_MIB,
        "minAgeSeconds": min_age_s,
        "items": [
            {
                "namespace": workload.namespace,
                "targetRef": {"kind": workload.kind, "name": workload.name},
                "recommendation": {"containerRecommendations": containers},
            }
            for workload, containers in workloads.items()
        ],
    }


class _Advisor:
    def __init__(self, state: ClusterState, config: Configuration, min_age_s: float) -> None:
        self._sizing, self._factor = config.sizing(), config.cost.per_unit
        self._share = config.resource_names().share
        self._min_age_s = min_age_s
        self._offers = offers(state.infos.values(), self._sizing, self._factor)

    def of(self, container: str, seen: Sequence[ObservedContainer]) -> dict[str, Any]:
        """The recommendation for a container of all pods of a workload."""
        pods = [each for each in seen if not each.finished]
        known = [each for each in pods if each.peak_mib is not None]
        # After a change of the workload, the youngest pod has the present request.
        latest = min(pods or seen, key=lambda each: each.age_s if each.age_s is not None else 0.0)
        ask = self._mean(latest, pods)
        failures = sum(each.failures for each in seen)
        # What was too little before the request was raised does not make the present one too small.
        lacked = sum(each.failures for each in seen if each.asks == latest.asks)
        observed_s = max((each.age_s or 0.0 for each in known), default=0.0)
        peak = max((each.peak_mib or 0 for each in known), default=None)
        busy = [each.busy_percent for each in pods if each.busy_percent is not None]
        found: dict[str, Any] = {
            "containerName": container,
            **dict.fromkeys(_BOUNDS),
            "verdict": "unknown",
            "reason": "",
            "request": dict(latest.asks),
            "peakMiB": peak,
            "outOfMemory": failures,
            "pods": len(pods),
            "observedPods": len(known),
            "observedSeconds": round(observed_s),
            "utilizationPercent": round(fmean(busy)) if busy else None,
            "frees": _NOTHING,
            "options": [],
            "notes": [],
        }
        if isinstance(ask, str):
            return found | {"reason": ask}
        if peak is None and not lacked:
            return found | {"reason": next(each.problem or "" for each in seen)}
        least = ask.memory_mib * AFTER_FAILURE if lacked else 0.0
        sized = bounds(peak or 0, observed_s, least, self._most_mib(ask))
        found |= self._sized(ask, sized, found, lacked)
        return found | {"notes": _notes(ask, self._share, found)}

    def _sized(
        self,
        ask: _Ask,
        sized: MemoryBounds,
        seen: dict[str, Any],
        lacked: int,
    ) -> dict[str, Any]:
        """The fields that follow from the bounds, and from those that say what was seen; with the present
        request, pods `lacked` memory so often."""
        peak, failures, observed_s = seen["peakMiB"], seen["outOfMemory"], seen["observedSeconds"]
        pods, busy_percent = seen["pods"], seen["utilizationPercent"]
        too_small = lacked > 0 or (peak or 0) > ask.memory_mib
        if not too_small and observed_s < self._min_age_s:
            return {"reason": f"seen for {_hours(observed_s)}, of at least {_hours(self._min_age_s)}"}
        amounts = (sized.target, sized.lower, sized.upper, sized.uncapped)
        found: dict[str, Any] = {
            name: self._resources(ask, mib) for name, mib in zip(_BOUNDS, amounts, strict=True)
        }
        if peak is None:
            found["uncappedTarget"] = None
        is_largest = found["target"] == {ask.resource: str(ask.amount)}
        if too_small:
            reason = f"ran out of GPU memory {_times(lacked)}" if lacked else "used more than it asks"
            if sized.target <= ask.memory_mib or is_largest:
                reason += ", and the cluster has nothing larger"
            return found | {"verdict": "raise", "reason": reason}
        used = f"used {peak} of {ask.memory_mib} MiB"
        if sized.target > ask.memory_mib and not is_largest:
            # GPUs and instances have few sizes: a little more memory is no reason for a larger one.
            if ask.resource == self._share or is_worth(ask.memory_mib, sized.target):
                return found | {
                    "verdict": "raise",
                    "reason": f"{used}: with a margin it needs {sized.target}",
                }
            found["target"] = {ask.resource: str(ask.amount)}
        if ask.resource != self._share and busy_percent is not None and busy_percent >= _BUSY_PERCENT:
            # Less of a GPU computes more slowly, whatever memory it has.
            return found | {
                "verdict": "keep",
                "reason": f"{used}, and computed {busy_percent:.0f} % of the time",
            }
        if failures:
            used += f", and ran out of GPU memory {_times(failures)} with another request"
        elif options := self._options(ask, sized.target, pods):
            return found | {
                "verdict": "lower",
                "reason": used,
                "frees": options[0]["frees"],
                "options": options,
            }
        return found | {"verdict": "keep", "reason": used}

    def _mean(self, latest: ObservedContainer, pods: Sequence[ObservedContainer]) -> _Ask | str:
        """What the latest pod asks, with the mean cost of all that ask the same: prices of nodes differ."""
        ask = self._ask(latest)
        if isinstance(ask, str):
            return ask
        asks = [self._ask(each) for each in pods if each.asks == latest.asks]
        known = [each for each in asks if isinstance(each, _Ask)] or [ask]
        device = latest.device
        return replace(
            ask,
            gpus=fmean(each.gpus for each in known),
            cost=fmean(each.cost for each in known),
            vendor=device.vendor if device is not None else ask.vendor,
            min_compute_capability=latest.min_compute_capability,
        )

    def _ask(self, of: ObservedContainer) -> _Ask | str:
        """What a container asks, or why it cannot be compared."""
        info, device = of.info, of.device
        if len(of.asks) != 1:
            return SEVERAL_ASKS
        if device is None or info.report is None:
            return UNREPORTED
        ((resource, amount),) = of.asks
        price, model = gpu_price(info, device.model, self._sizing, self._factor), device.model.name
        if resource == self._share:
            room = ShareMemory.of(device.memory, NOTHING_HELD, self._sizing.headroom_percent)
            part = min(1.0, amount / max(1, room.share_total))
            return _Ask(resource, amount, amount, part, part * price, model)
        if info.report.sharing_strategy != "none":
            return NOT_PROMISED
        if resource.startswith(MIG_PREFIX):
            slots = sum(each.size for each in device.mig.instances)
            for each in device.mig.instances:
                memory_mib = device.instance_memory_mib(each)
                if memory_mib and resource_from_profile(each.offered_as) == resource:
                    part = each.size / slots * amount
                    return _Ask(resource, amount, memory_mib, part, part * price, model)
            return UNREPORTED
        if device.mig.enabled:
            return BY_INSTANCE
        if not device.memory.total_mib:
            return UNKNOWN_MEMORY
        memory_mib = ShareMemory.of(device.memory, NOTHING_HELD).share_total
        return _Ask(resource, amount, memory_mib, float(amount), amount * price, model)

    def _most_mib(self, ask: _Ask) -> int | None:
        """What the largest GPU for such a request has; None if none is known."""
        shares = ask.resource == self._share
        of_vendor = (each for each in self._offers if each.vendor == ask.vendor)
        fitting = (each.memory_mib for each in of_vendor if not shares or each.kind == "share")
        return max(fitting, default=None)

    def _resources(self, ask: _Ask, mib: int) -> dict[str, str]:
        """So much memory as a request: of MIG, the smallest instance that has it, or the largest of all."""
        if not ask.resource.startswith(MIG_PREFIX):
            return {self._share: str(mib)}
        instances = [each for each in self._offers if each.kind == "mig"]
        if not instances:
            # The pod's own is on a node that offers none any more.
            return {ask.resource: str(ask.amount)}
        holding = [each for each in instances if each.memory_mib >= mib]
        if holding:
            best = min(holding, key=lambda each: (each.cost(mib), each.memory_mib))
        else:
            best = max(instances, key=lambda each: each.memory_mib)
        return {best.resource: str(ask.amount)}

    def _options(self, ask: _Ask, target_mib: int, pods: int) -> list[dict[str, Any]]:
        """Smaller requests that hold the target: the cheapest of each kind, the one that frees most first."""
        is_share = ask.resource == self._share
        if is_share and not (target_mib < ask.amount and is_worth(ask.amount, target_mib)):
            return []
        best: dict[str, Offer] = {}
        for each in self._offers:
            if is_share:
                # Another model is a question of speed, which no peak answers for a part of a GPU.
                wanted = each.kind == "share" and each.model == ask.model
            elif ask.resource.startswith(MIG_PREFIX):
                wanted = each.kind == "mig" and ask.amount == 1 and each.resource != ask.resource
            elif each.kind == "model":
                # On one node, as all GPUs of a pod.
                wanted = each.model != ask.model and each.on_node >= ask.amount
            else:
                wanted = ask.amount == 1
            cost = each.cost(target_mib) * ask.amount if each.kind == "model" else each.cost(target_mib)
            suits = each.vendor == ask.vendor and each.compute_capability >= ask.min_compute_capability
            if wanted and suits and each.memory_mib >= target_mib and cost < ask.cost - _CENT:
                before = best.get(each.kind)
                if before is None or each.cost(target_mib) < before.cost(target_mib):
                    best[each.kind] = each
        found = [self._option(ask, offer, target_mib, pods) for offer in best.values()]
        return sorted(found, key=lambda option: -option["frees"]["valuePerHour"])

    def _option(self, ask: _Ask, offer: Offer, target_mib: int, pods: int) -> dict[str, Any]:
        number = ask.amount if offer.kind == "model" else 1
        before = ask.memory_mib * (1 if ask.resource == self._share else ask.amount)
        after = target_mib if offer.kind == "share" else offer.memory_mib * number
        gpus = offer.gpus(target_mib) * number
        resources = {
            "share": {self._share: str(target_mib)},
            "mig": {offer.resource: "1"},
            "model": {ask.resource: str(ask.amount)},
        }
        return {
            "kind": offer.kind,
            "model": offer.model,
            "resources": resources[offer.kind],
            "frees": {
                "memoryMiB": (before - after) * pods,
                "gpus": round((ask.gpus - gpus) * pods, DIGITS),
                "valuePerHour": round((ask.cost - gpus * offer.value) * pods, DIGITS),
            },
        }


def _notes(ask: _Ask, share: str, found: dict[str, Any]) -> list[str]:
    """What numbers of memory do not say."""
    notes, busy_percent = [], found["utilizationPercent"]
    if busy_percent is not None and busy_percent < _QUIET_PERCENT:
        other = "" if ask.resource == share else " or to share a GPU by time"
        notes.append(
            f"its GPUs computed {busy_percent:.0f} % of about the last minute: "
            f"it may suit a smaller model{other}"
        )
    if busy_percent is None and found["options"] and ask.resource != share:
        notes.append("it is unknown how much its GPUs compute: with less of a GPU it may be too slow")
    if (found["peakMiB"] or 0) >= _RESERVED * ask.memory_mib:
        notes.append("it may have reserved memory in advance, as vLLM and JAX do: then it may need less")
    return notes


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h"
