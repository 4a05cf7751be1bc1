"""``scheduler-ext explain``: the verdict of every node on a pod."""

from collections import Counter
from typing import Any

import click

from scheduler_ext.cli.inputs import OnePod, one_pod_options
from scheduler_ext.cli.options import output_option
from scheduler_ext.cli.output import (
    Columns,
    not_modelled,
    print_items,
    print_notes,
    print_output,
    print_table,
    printable,
)
from scheduler_ext.core.intree import NO_NODES
from scheduler_ext.explain.explain import explain as explain_pod

WOULD_NOT_FIT = 3
# Shares of a pod in its line.
_SHARES = 8
_SIDES = (("needs", "needed"), ("has", "have"))
# Units that are no amounts: "needs Fresh report, has labels only" is complete.
_WORDS = ("state", "labels", "health", "model", "sharing")


@click.command()
@one_pod_options
@output_option
@click.pass_context
def explain(ctx: click.Context, asked: OnePod, output: str) -> None:
    """Explain which nodes fit a pod, and why the others do not.

    Shows the verdict of every node with the numbers behind it, and each score. Exit 0 if the pod fits on some
    node, 3 if it fits on none.
    """
    answer_with(ctx, asked.answer(explain_pod), output)


def answer_with(ctx: click.Context, explanation: dict[str, Any], output: str) -> None:
    """Print an Explanation in the form of ``-o``, and exit."""
    print_output(output, explanation, "node", explanation["best"], _print_explanation)
    ctx.exit(0 if explanation["fits"] else WOULD_NOT_FIT)


def _print_explanation(explanation: dict[str, Any], *, wide: bool) -> None:
    """The table; ``wide`` shows the scores of all nodes that fit."""
    click.echo(printable(asking(explanation)))
    print_notes([*explanation["warnings"], *not_modelled(explanation["notModelled"])])
    if explanation["fits"]:
        click.echo(printable(f"Fits; best: {', '.join(explanation['best'][:10])}"))
    else:
        print_why_not(explanation)
    click.echo()
    print_nodes(explanation, wide=wide)


def print_nodes(explanation: dict[str, Any], *, wide: bool, here: str | None = None) -> None:
    """The verdict of every node, and the scores of the nodes that fit; ``here`` is the pod's own node."""
    columns: Columns = {
        "NODE": "node",
        "VERDICT": lambda node: node["verdict"] + (", is here" if node["node"] == here else ""),
        "SCORE": lambda node: node["score"] if node["verdict"] == "fits" else "",
        "TOTAL": lambda node: "" if node["total"] is None else f"{node['total']:.3f}",
        "MODEL": lambda node: node["model"] or "-",
        "FREE GPUS": lambda node: f"{node['freeGpus']} of {node['gpus']}",
        "REASON OR DEVICES": lambda node: node["reason"] or devices(node["devices"]),
        "NEAREST MISS": _nearest_miss,
    }
    print_items(columns, explanation["nodes"], wide=wide)
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


def print_why_not(explanation: dict[str, Any]) -> None:
    """The reasons why a pod fits on no node, the nearest node, and advice."""
    if explanation["invalid"]:
        click.echo("Fits nowhere: correct the invalid GPU request first.")
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
    """The GPU request of the answer's pod, or the problem with it."""
    who = f"Pod {answer['pod']['namespace']}/{answer['pod']['name']}"
    if answer["invalid"]:
        return f"{who}: its GPU request is invalid: {answer['invalid']}"
    request = answer["request"]
    parts = [f"{name}={count}" for kind in ("gpus", "mig") for name, count in request[kind].items()]
    shares = request["shares"]
    parts += [f"{share['memoryMiB']} MiB for {share['container']}" for share in shares[:_SHARES]]
    if len(shares) > _SHARES:
        parts.append(f"and {len(shares) - _SHARES} more shares")
    return f"{who} asks {', '.join(parts) or 'no GPU'}"


def devices(entries: list[dict[str, Any]]) -> str:
    """The devices of each container, or their number where the device plugin picks them."""
    shares = [
        f"{e['container']}: {e['uuid']}" + (f" {mib} MiB" if (mib := e.get("memoryMiB")) is not None else "")
        for e in entries
        if e["uuid"]
    ]
    picked = Counter(e["container"] for e in entries if not e["uuid"])
    counts = [f"{container}: {count} by device plugin" for container, count in picked.items()]
    return ", ".join([*shares, *counts])


def _nearest_miss(node: dict[str, Any]) -> str:
    """The numbers behind a rejection."""
    miss = node["nearestMiss"]
    if miss is None:
        return "" if node["by"] == "gpu" else "by kubernetes"
    if node["by"] == "kubernetes":
        sides = [f"{word} {miss[side]}" for word, side in _SIDES if miss[side] is not None]
        return f"by kubernetes: {', '.join(sides)}"
    return shortfall(miss)


def shortfall(miss: dict[str, Any]) -> str:
    """The needed and the available amount."""
    where = f"{miss['device']}: " if miss["device"] else ""
    unit = f" {miss['unit']}" if miss["unit"] and miss["unit"] not in _WORDS else ""
    have = "unknown" if miss["have"] is None else miss["have"]
    needed = f"needs {miss['needed']}, " if miss["needed"] is not None else ""
    return f"{where}{needed}has {have}{unit}"
