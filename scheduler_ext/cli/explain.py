"""``scheduler-ext explain``: where would this pod go, and why not elsewhere?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from scheduler_ext.cli.inputs import read_config, source_of
from scheduler_ext.cli.options import one_pod_options
from scheduler_ext.cli.output import print_names, print_structured, print_table, printable
from scheduler_ext.cli.pod_files import read_pod
from scheduler_ext.core.errors import InventoryError, PodError
from scheduler_ext.core.intree import NO_NODES
from scheduler_ext.explain.explain import explain as explain_pod

WOULD_NOT_FIT = 3
# Shares of a pod that are named in its line.
_SHARES = 8
_SIDES = (("needs", "needed"), ("has", "have"))
# Units of what is no amount: "needs Fresh report, has labels only" needs no further word.
_WORDS = ("state", "labels", "health", "model", "sharing")


@click.command()
@one_pod_options
@click.pass_context
def explain(
    ctx: click.Context,
    filename: Path,
    pod_name: str | None,
    namespace: str | None,
    inventory_file: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    config_file: Path | None,
    output: str,
) -> None:
    """Explain where a pod would go, and why not elsewhere.

    Shows the verdict of every node with the numbers behind it, and each score. Exit 0 if the pod fits
    somewhere, 3 if it does not.
    """
    config = read_config(config_file)
    source = source_of(inventory_file, kubeconfig, context)
    given = read_pod(filename, source.namespace(namespace), only=namespace is not None, name=pod_name)
    state = source.state(config, with_objects=True)
    try:
        explanation = explain_pod(given.pod, state, config)
    except PodError as error:
        raise PodError(f"{filename}: {error}") from None
    except InventoryError as error:
        raise InventoryError(f"{state.source}: {error}") from None
    explanation["warnings"][:0] = given.notes()
    if output in ("json", "yaml"):
        print_structured(explanation, output)
    elif output == "name":
        print_names("node", explanation["best"])
    else:
        print_explanation(explanation, wide=output == "wide")
    ctx.exit(0 if explanation["fits"] else WOULD_NOT_FIT)


def print_explanation(explanation: dict[str, Any], *, wide: bool) -> None:
    """An Explanation for people; ``wide`` shows the scores of all nodes that fit."""
    click.echo(printable(asking(explanation)))
    for warning in explanation["warnings"]:
        click.echo(printable(f"Note: {warning}"))
    for feature in explanation["notModelled"]:
        click.echo(f"Note: not modelled here, kube-scheduler may decide otherwise: {feature}")
    if explanation["fits"]:
        click.echo(printable(f"Fits; best: {', '.join(explanation['best'][:10])}"))
    else:
        tell_why_not(explanation)
    click.echo()
    print_nodes(explanation, wide=wide)


def print_nodes(explanation: dict[str, Any], *, wide: bool, here: str | None = None) -> None:
    """Every node's verdict, and the scores of those that fit; ``here`` is the node that the pod is on."""
    rows = [
        (
            node["node"],
            node["verdict"] + (", is here" if node["node"] == here else ""),
            node["score"] if node["verdict"] == "fits" else "",
            f"{node['total']:.3f}" if node["total"] is not None else "",
            node["model"] or "-",
            f"{node['freeGpus']} of {node['gpus']}",
            node["reason"] or devices(node["devices"]),
            nearest_miss(node),
        )
        for node in explanation["nodes"]
    ]
    header = ("NODE", "VERDICT", "SCORE", "TOTAL", "MODEL", "FREE GPUS", "REASON OR DEVICES", "NEAREST MISS")
    print_table(header, rows, wide=wide)
    fitting = [node for node in explanation["nodes"] if node["verdict"] == "fits" and node["terms"]]
    if fitting:
        click.echo()
        terms = [term["name"] for term in fitting[0]["terms"] if _weight(term) != _weight({"weight": 0.0})]
        shown = fitting if wide else fitting[:10]
        scores = [{term["name"]: term for term in node["terms"]} for node in shown]
        print_table(
            ("NODE", *(f"{name} {_weight(scores[0][name])}" for name in terms)),
            [
                (node["node"], *(f"{values[name]['value']:.3f}" for name in terms))
                for node, values in zip(shown, scores, strict=True)
            ],
            wide=wide,
        )


def _weight(term: dict[str, Any]) -> str:
    return f"x{term['weight']:.2f}"


def tell_why_not(explanation: dict[str, Any]) -> None:
    """Why a pod fits nowhere, what is nearest, and what would help."""
    if explanation["invalid"]:
        click.echo("Fits nowhere: first correct what cannot be read.")
        return
    reasons = [f"{count} {reason}" for reason, count in explanation["counts"].items()]
    click.echo(f"Fits nowhere: {printable(', '.join(reasons)) or NO_NODES}.")
    if explanation["nearest"] is not None:
        click.echo(f"Nearest: {printable(explanation['nearest']['text'])}")
    if explanation["advice"]:
        click.echo("What would help:")
        for advice in explanation["advice"]:
            click.echo(f"  - {printable(advice)}")


def asking(answer: dict[str, Any]) -> str:
    """What the pod of an answer asks, or why that cannot be read."""
    who = f"Pod {answer['pod']['namespace']}/{answer['pod']['name']}"
    if answer["invalid"]:
        return f"{who}: its GPU request is invalid: {answer['invalid']}"
    return f"{who} asks {_asked(answer['request'])}"


def _asked(request: dict[str, Any]) -> str:
    """A request in a few words."""
    parts = [f"{name}={count}" for kind in ("gpus", "mig") for name, count in request[kind].items()]
    shares = request["shares"]
    parts += [f"{share['memoryMiB']} MiB for {share['container']}" for share in shares[:_SHARES]]
    if len(shares) > _SHARES:
        parts.append(f"and {len(shares) - _SHARES} more shares")
    return ", ".join(parts) or "no GPU"


def devices(entries: list[dict[str, Any]]) -> str:
    """Which containers get which devices; where the device plugin picks, how many."""
    shares = [_share(e) for e in entries if e["uuid"]]
    picked = Counter(e["container"] for e in entries if not e["uuid"])
    counts = [f"{container}: {count} by device plugin" for container, count in picked.items()]
    return ", ".join([*shares, *counts])


def _share(entry: dict[str, Any]) -> str:
    mib = entry.get("memoryMiB")
    return f"{entry['container']}: {entry['uuid']}" + (f" {mib} MiB" if mib is not None else "")


def nearest_miss(node: dict[str, Any]) -> str:
    """The numbers behind a rejection."""
    miss = node["nearestMiss"]
    if miss is None:
        return "" if node["by"] == "gpu" else "by kubernetes"
    if node["by"] == "kubernetes":
        sides = [f"{word} {miss[side]}" for word, side in _SIDES if miss[side] is not None]
        return f"by kubernetes: {', '.join(sides)}"
    return shortfall(miss)


def shortfall(miss: dict[str, Any]) -> str:
    """What was needed and what there is, in a few words."""
    where = f"{miss['device']}: " if miss["device"] else ""
    unit = f" {miss['unit']}" if miss["unit"] and miss["unit"] not in _WORDS else ""
    have = "unknown" if miss["have"] is None else miss["have"]
    needed = f"needs {miss['needed']}, " if miss["needed"] is not None else ""
    return f"{where}{needed}has {have}{unit}"
