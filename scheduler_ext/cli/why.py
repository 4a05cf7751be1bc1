"""``scheduler-ext why``: why is this pod pending, or where it is?"""

from __future__ import annotations

from typing import Any

import click

from scheduler_ext.cli.explain import WOULD_NOT_FIT, asking, devices, print_nodes, tell_why_not
from scheduler_ext.cli.live_options import Live, live_options
from scheduler_ext.cli.options import namespace_option, output_option
from scheduler_ext.cli.output import print_names, print_structured, printable
from scheduler_ext.core.errors import PodError


@click.command()
@click.argument("pod")
@namespace_option
@live_options
@output_option
@click.pass_context
def why(
    ctx: click.Context,
    pod: str,
    namespace: str | None,
    live: Live,
    output: str,
) -> None:
    """Tell why a pod waits and what would help, or why it is where it is.

    Exit 0 if it has a node or would fit, 3 if not.
    """
    name = pod.removeprefix("pod/").removeprefix("pods/")
    where = live.namespace(namespace)
    told = live.answers().pod(where, name)
    if told is None:
        raise PodError(
            f"pod {where}/{name}: there is no such pod that waits for GPUs or holds some"
            + ("; -n chooses another namespace" if namespace is None else "")
        )
    if output in ("json", "yaml"):
        print_structured(told, output)
    elif output == "name":
        print_names("pod", [name])
    else:
        _print(told, wide=output == "wide")
    ctx.exit(0 if told["fits"] or told["boundTo"] else WOULD_NOT_FIT)


def _print(told: dict[str, Any], *, wide: bool) -> None:
    click.echo(printable(asking(told)))
    if told["boundTo"]:
        click.echo(printable(f"It is on node {told['boundTo']}."))
    elif told["fits"]:
        shown = ", ".join(told["best"][:5])
        click.echo(printable(f"It waits, and fits now; best: {shown}. kube-scheduler has yet to try again."))
    else:
        tell_why_not(told)
    if not told["boundTo"] and told["kubeScheduler"]:
        click.echo(printable(f"kube-scheduler says: {told['kubeScheduler']}"))
    if told["recorded"] is not None:
        _print_recorded(told["recorded"])
    for warning in told["warnings"]:
        click.echo(printable(f"Note: {warning}"))
    for feature in told["notModelled"]:
        click.echo(f"Note: not modelled here, kube-scheduler may decide otherwise: {feature}")
    if wide:
        click.echo()
        print_nodes(told, wide=True)


def _print_recorded(recorded: dict[str, Any]) -> None:
    """What was decided, and what came of it."""
    if recorded["filters"]:
        reasons = ", ".join(f"{count} {reason}" for reason, count in recorded["reasons"].items())
        click.echo(
            printable(
                f"Asked {recorded['filters']} times, last at {recorded['at']}: of {recorded['nodesIn']} "
                f"nodes {recorded['nodesOut']} fitted" + (f"; {reasons}" if reasons else "")
            )
        )
    best, bound = recorded["best"], recorded["bound"]
    if best is not None:
        values = {term["name"]: f"{term['value']:.2f} (mean {term['mean']:.2f})" for term in best["terms"]}
        terms = ", ".join(f"{name} {values[name]}" for name in best["strongest"])
        click.echo(printable(f"Best was {best['node']} of {best['of']}" + (f": {terms}" if terms else "")))
    if bound is not None:
        by = "seen there" if bound["result"] == "seen" else bound["result"]
        given = [
            {"container": container, "uuid": uuid, "memoryMiB": ""}
            for container, uuids in bound["devices"].items()
            for uuid in uuids
        ]
        which = f" on {devices(given).strip()}" if given else ""
        error = f": {bound['error']}" if bound["error"] else ""
        click.echo(printable(f"Node {bound['node']}: {by} at {bound['at']}{which}{error}"))
