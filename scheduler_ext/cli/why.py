"""`scheduler-ext why`: the reason why a pod waits, or is on its node."""

from typing import Any

import click

from scheduler_ext.cli.answers import Live, live_options
from scheduler_ext.cli.explain import WOULD_NOT_FIT, asking, devices, print_nodes, print_why_not
from scheduler_ext.cli.kubeconfigs import complete_pods
from scheduler_ext.cli.options import namespace_option
from scheduler_ext.cli.output import not_modelled, print_notes, print_output, show
from scheduler_ext.core.errors import PodError


@click.command()
@click.argument("pod", shell_complete=complete_pods)
@namespace_option
@live_options
@click.pass_context
def why(ctx: click.Context, pod: str, namespace: str | None, live: Live, output: str) -> None:
    """Explain why a pod waits, or why it is on its node.

    Exit 0 if the pod has a node or would fit, 3 if it would not fit, 1 if there is no such pod now.
    """
    name = pod.removeprefix("pod/").removeprefix("pods/")
    if "/" in name:
        raise click.UsageError(f"{pod!r} is no name of a pod; -n chooses its namespace")
    where = live.namespace(namespace)
    answer = live.answers().pod(where, name)
    # Older extenders do not report it.
    gone = answer is None or answer.get("gone", False)
    if answer is not None and not (gone and output == "name"):
        print_output(output, answer, "pod", [name], _print)
    if gone:
        raise PodError(
            f"pod {where}/{name}: there is no such pod that waits for GPUs or holds some"
            + ("; -n chooses another namespace" if namespace is None else "")
        )
    assert answer is not None
    ctx.exit(0 if answer["fits"] or answer["boundTo"] else WOULD_NOT_FIT)


def _print(answer: dict[str, Any], *, wide: bool) -> None:
    gone = answer.get("gone", False)
    lines = [asking(answer), *(f"Note: {warning}" for warning in answer["warnings"])]
    if gone:
        # The user first has to see that no such pod waits.
        lines[:2] = reversed(lines[:2])
    for line in lines:
        show(line)
    if answer["boundTo"]:
        # Older extenders do not report the devices.
        which = ", ".join(held["uuid"] for held in answer.get("holds", ()))
        show(f"It is on node {answer['boundTo']}" + (f" with {which}" if which else "") + ".")
    else:
        if gone:
            click.echo("If the pod were created again now:")
        if answer["fits"]:
            fits = "Fits" if gone else "It waits, and fits now"
            tries = "" if gone else " kube-scheduler has yet to try again."
            show(f"{fits}; best: {', '.join(answer['best'][:5])}.{tries}")
        else:
            print_why_not(answer)
    if not answer["boundTo"] and answer["kubeScheduler"]:
        says = "said" if gone else "says"
        show(f"kube-scheduler {says}: {answer['kubeScheduler']}")
    if answer["recorded"] is not None:
        _print_recorded(answer["recorded"])
    elif answer["boundTo"]:
        _print_again(answer)
    print_notes(not_modelled(answer["notModelled"]))
    if wide:
        click.echo()
        print_nodes(answer, wide=True, here=answer["boundTo"])


def _print_recorded(recorded: dict[str, Any]) -> None:
    """The last decision and the binding after it."""
    if recorded["filters"]:
        reasons = ", ".join(f"{count} {reason}" for reason, count in recorded["reasons"].items())
        asked = "Asked once" if recorded["filters"] == 1 else f"Asked {recorded['filters']} times, last"
        show(
            f"{asked} at {_time(recorded['at'])}: of {recorded['nodesIn']} "
            f"nodes {recorded['nodesOut']} fitted" + (f"; {reasons}" if reasons else "")
        )
    best, bound = recorded["best"], recorded["bound"]
    if best is not None:
        values = {term["name"]: _term(term, term["mean"]) for term in best["terms"]}
        terms = ", ".join(values[name] for name in best["strongest"])
        show(f"Best was {best['node']} of {best['of']}" + (f": {terms}" if terms else ""))
    if bound is not None:
        by = "seen there" if bound["result"] == "seen" else bound["result"]
        given = [
            {"container": container, "uuid": uuid}
            for container, uuids in bound["devices"].items()
            for uuid in uuids
        ]
        which = f" on {devices(given)}" if given else ""
        error = f": {bound['error']}" if bound["error"] else ""
        show(f"Node {bound['node']}: {by} at {_time(bound['at'])}{which}{error}")


def _print_again(answer: dict[str, Any]) -> None:
    """The decision for the pod now, if no past decision is recorded."""
    here = next((node for node in answer["nodes"] if node["node"] == answer["boundTo"]), None)
    fitting = [node for node in answer["nodes"] if node["verdict"] == "fits"]
    if here is None:
        return
    if here["verdict"] != "fits":
        show(f"No decision is recorded. It would not fit there again: {here['reason']}")
        return
    terms = ", ".join(_term(term, mean) for term, mean in _strongest(here["terms"], fitting))
    best = (
        "this one is the best" if answer["boundTo"] in answer["best"] else f"{answer['best'][0]} is the best"
    )
    show(
        f"No decision is recorded. If the pod were created again now, {len(fitting)} of "
        f"{len(answer['nodes'])} nodes would fit; {best}"
        + (f"; in favour of this node: {terms}" if terms else "")
    )


def _strongest(
    terms: list[dict[str, Any]], fitting: list[dict[str, Any]]
) -> list[tuple[dict[str, Any], float]]:
    """The two terms with the largest lead of a node over the nodes that fit, each with the mean."""
    ahead = []
    for i, term in enumerate(terms):
        mean = sum(node["terms"][i]["value"] for node in fitting) / len(fitting)
        if term["weight"] * (term["value"] - mean) > 0:
            ahead.append((term, mean))
    return sorted(ahead, key=lambda pair: -pair[0]["weight"] * (pair[0]["value"] - pair[1]))[:2]


def _term(term: dict[str, Any], mean: float) -> str:
    return f"{term['name']} {term['value']:.2f} (mean {mean:.2f})"


def _time(text: str) -> str:
    """Whole seconds, as in kubectl."""
    return text[:19] + "Z"
