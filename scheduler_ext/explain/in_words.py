"""An Explanation in sentences, the same for terminals and for the page."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler_ext.core.filters import BY_NAME
from scheduler_ext.core.framework.refusal import MissKind
from scheduler_ext.core.intree import NO_NODES
from scheduler_ext.explain.autoscaling import new_node_in_words
from scheduler_ext.explain.sentences import nodes_in_words

# Shares of a pod in its line.
_SHARES = 8
_NOWHERE = "Fits nowhere"
_SIDES = (("needs", "needed"), ("has", "have"))
_Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Why:
    """Why a pod waits, or is on its node, in sentences: the `request`, `notes` about the pod itself, the
    `verdict` about the present, kube-scheduler's message, and `decisions` of the past, or in place of them
    one now. `refused`: it has no node and fits nowhere, so that the last sentence of the verdict is short for
    `why_not`."""

    request: str
    notes: Sequence[str]
    verdict: Sequence[str]
    refused: bool
    kube_scheduler: str | None
    decisions: Sequence[str]
    not_modelled: Sequence[str]


def why_in_words(answer: _Values) -> Why:
    """The words for the answer of `GET /explain` about a named pod."""
    gone, waits = answer.get("gone", False), not answer["boundTo"]
    message = None
    if waits and answer["kubeScheduler"]:
        message = f"kube-scheduler {'said' if gone else 'says'}: {answer['kubeScheduler']}"
    decisions: Sequence[str] = ()
    if answer["recorded"] is not None:
        decisions = _recorded(answer["recorded"])
    elif not waits:
        decisions = _again(answer)
    # Older extenders do not report it.
    leaves = gone or answer.get("terminating", False)
    return Why(
        request=request_line(answer),
        notes=answer["warnings"],
        verdict=_verdict(answer, leaves=leaves),
        refused=waits and not answer["fits"],
        kube_scheduler=message,
        decisions=decisions,
        not_modelled=not_modelled(answer["notModelled"]),
    )


def _verdict(answer: _Values, *, leaves: bool) -> list[str]:
    if answer["boundTo"]:
        # Older extenders do not report the devices.
        which = ", ".join(held["uuid"] for held in answer.get("holds", ()))
        return [f"It is on node {answer['boundTo']}" + (f" with {which}" if which else "") + "."]
    again = ["If the pod were created again now:"] if leaves else []
    if not answer["fits"]:
        return [*again, f"{_NOWHERE}." if answer["counts"] and not answer["invalid"] else why_not(answer)[0]]
    fits = "Fits" if leaves else "It waits, and fits now"
    tries = "" if leaves else " kube-scheduler has yet to try again."
    return [*again, f"{fits}; best: {', '.join(answer['best'][:5])}.{tries}"]


def why_not(answer: _Values) -> list[str]:
    """The reasons why a pod fits on no node, the nearest node, and advice, line by line."""
    if answer["invalid"]:
        return [f"{_NOWHERE}: correct the invalid GPU request first."]
    reasons = [f"{count} {reason}" for reason, count in answer["counts"].items()]
    lines = [f"{_NOWHERE}: {', '.join(reasons) or NO_NODES}."]
    if answer["nearest"] is not None:
        lines.append(f"Nearest: {answer['nearest']['text']}")
    if answer["advice"]:
        lines += ["What would help:", *(f"  - {advice}" for advice in answer["advice"])]
    # Older extenders do not report it.
    autoscaler = answer.get("autoscaler")
    if autoscaler is not None and answer["counts"]:
        lines.append(new_node_in_words(autoscaler))
    return lines


def request_line(answer: _Values) -> str:
    """The GPU request of the answer's pod, or the problem with it."""
    who = f"Pod {answer['pod']['namespace']}/{answer['pod']['name']}"
    if answer["invalid"]:
        return f"{who}: its GPU request is invalid: {answer['invalid']}"
    request = answer["request"]
    parts = [f"{name}={count}" for kind in ("gpus", "mig") for name, count in request[kind].items()]
    for claimed in request.get("claims", ()):
        count = "some" if claimed["count"] is None else claimed["count"]
        parts.append(f"{count} of {claimed['devices']} by claim")
    parts += [f"the devices that {claim} holds" for claim in request.get("held", ())]
    shares = [f"{share['memoryMiB']} MiB for {share['container']}" for share in request["shares"]]
    more = [f"and {len(shares) - _SHARES} more shares"] if shares[_SHARES:] else []
    return f"{who} asks {', '.join([*parts, *shares[:_SHARES], *more]) or 'no GPU'}"


def _recorded(recorded: _Values) -> list[str]:
    """The last decision and the binding after it."""
    lines = []
    if recorded["filters"]:
        reasons = ", ".join(f"{count} {reason}" for reason, count in recorded["reasons"].items())
        asked = "Asked once" if recorded["filters"] == 1 else f"Asked {recorded['filters']} times, last"
        lines.append(
            f"{asked} at {_time(recorded['at'])}: of {nodes_in_words(recorded['nodesIn'])} "
            f"{recorded['fitting']:,} fitted" + (f"; {reasons}" if reasons else "")
        )
    best, bound = recorded["best"], recorded["bound"]
    if best is not None:
        values = {term["name"]: _term(term, term["mean"]) for term in best["terms"]}
        terms = ", ".join(values[name] for name in best["strongest"])
        lines.append(f"Best was {best['node']} of {best['of']}" + (f": {terms}" if terms else ""))
    if bound is not None:
        by = "seen there" if bound["result"] == "seen" else bound["result"]
        given = [
            {"container": container, "uuid": uuid}
            for container, uuids in bound["devices"].items()
            for uuid in uuids
        ]
        which = f" on {devices(given)}" if given else ""
        error = f": {bound['error']}" if bound["error"] else ""
        lines.append(f"Node {bound['node']}: {by} at {_time(bound['at'])}{which}{error}")
    return lines


def _again(answer: _Values) -> list[str]:
    """The decision for the pod now, if no past decision is recorded."""
    here = next((node for node in answer["nodes"] if node["node"] == answer["boundTo"]), None)
    fitting = [node for node in answer["nodes"] if node["verdict"] == "fits"]
    if here is None:
        return []
    if here["verdict"] != "fits":
        return [f"No decision is recorded. It would not fit there again: {here['reason']}"]
    terms = ", ".join(_term(term, mean) for term, mean in _strongest(here["terms"], fitting))
    best = (
        "this one is the best" if answer["boundTo"] in answer["best"] else f"{answer['best'][0]} is the best"
    )
    return [
        f"No decision is recorded. If the pod were created again now, {len(fitting)} of "
        f"{len(answer['nodes'])} nodes would fit; {best}"
        + (f"; in favour of this node: {terms}" if terms else "")
    ]


def _strongest(terms: Sequence[_Values], fitting: Sequence[_Values]) -> list[tuple[_Values, float]]:
    """The two terms with the largest lead of a node over the nodes that fit, each with the mean."""
    ahead = []
    for i, term in enumerate(terms):
        mean = sum(node["terms"][i]["value"] for node in fitting) / len(fitting)
        if term["weight"] * (term["value"] - mean) > 0:
            ahead.append((term, mean))
    return sorted(ahead, key=lambda pair: -pair[0]["weight"] * (pair[0]["value"] - pair[1]))[:2]


def _term(term: _Values, mean: float) -> str:
    return f"{term['name']} {term['value']:.2f} (mean {mean:.2f})"


def _time(text: str) -> str:
    """Whole seconds, as in kubectl."""
    return text[:19] + "Z"


def devices(entries: Sequence[_Values]) -> str:
    """The devices of each container, or their number if the device plugin picks them, or kube-scheduler for
    a claim."""
    shares = [
        f"{e['container']}: {e['uuid']}" + (f" {mib} MiB" if (mib := e.get("memoryMiB")) is not None else "")
        for e in entries
        if e["uuid"]
    ]
    picked = Counter((e["container"], e.get("by") or "device plugin") for e in entries if not e["uuid"])
    counts = [
        (f"{container}: " if container is not None else "") + f"{count} by {by}"
        for (container, by), count in picked.items()
    ]
    return ", ".join([*shares, *counts])


def nearest_miss(node: _Values) -> str:
    """The numbers behind a node's refusal; empty for a node that fits."""
    miss = node["nearestMiss"]
    if miss is None:
        return "" if node["by"] == "gpu" else "by kubernetes"
    if node["by"] == "kubernetes":
        sides = [f"{word} {miss[side]}" for word, side in _SIDES if miss[side] is not None]
        return f"by kubernetes: {', '.join(sides)}"
    return shortfall(miss)


def shortfall(miss: _Values) -> str:
    """The needed and the available amount."""
    where = f"{miss['device']}: " if miss["device"] else ""
    criterion = BY_NAME.get(miss["criterion"])
    # The others compare words: "needs Fresh report, has labels only" is complete.
    counted = criterion is None or criterion.kind in (MissKind.AMOUNT, MissKind.SIZE)
    unit = f" {miss['unit']}" if miss["unit"] and counted else ""
    have = "unknown" if miss["have"] is None else miss["have"]
    needed = f"needs {miss['needed']}, " if miss["needed"] is not None else ""
    return f"{where}{needed}has {have}{unit}"


def not_modelled(features: Sequence[str]) -> list[str]:
    """The notes on what kube-scheduler compares and this package does not."""
    return [f"not modelled here, kube-scheduler may decide otherwise: {feature}" for feature in features]
