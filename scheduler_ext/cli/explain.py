"""`scheduler-ext explain`, `replay` and `capacity`: the verdict of every node on a pod."""

from pathlib import Path
from typing import Any

import click

from scheduler_ext.cli.files import naming
from scheduler_ext.cli.inputs import OnePod, one_pod_options, read_pod
from scheduler_ext.cli.options import FILE_OR_STDIN, NAMESPACED_NAME, output_option
from scheduler_ext.cli.output import (
    Columns,
    print_items,
    print_notes,
    print_output,
    print_table,
    show,
)
from scheduler_ext.core.errors import PodError, RequestError, SnapshotFileError
from scheduler_ext.explain.explain import explain as explain_pod
from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.in_words import (
    devices,
    nearest_miss,
    not_modelled,
    request_line,
    shortfall,
    why_not,
)
from scheduler_ext.explain.snapshot_dump import Dump, revived
from scheduler_ext.whatif.capacity import capacity as capacity_of
from scheduler_ext.wire.files import read_file
from scheduler_ext.wire.snapshot_file import decode_snapshot_file

WOULD_NOT_FIT = 3
# Nodes without room in the table; a large cluster has many, all alike.
_SHOWN_EMPTY = 10


@click.command()
@one_pod_options
@output_option
@click.pass_context
def explain(ctx: click.Context, asked: OnePod, output: str) -> None:
    """Explain which nodes fit a pod, and why the others do not.

    Shows the verdict of every node with the numbers behind it, and each score. Exit 0 if the pod fits on some
    node, 3 if it fits on none.
    """
    _answer_with(ctx, asked.answer(explain_pod), output)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--pod", type=NAMESPACED_NAME, help="A pod of the snapshot, NAMESPACE/NAME.")
@click.option(
    "-f",
    "--filename",
    type=FILE_OR_STDIN,
    help="File with one Pod or one workload; the pod need not be in the snapshot. - reads standard input.",
)
@output_option
@click.pass_context
def replay(
    ctx: click.Context, file: Path, pod: tuple[str, str] | None, filename: Path | None, output: str
) -> None:
    """Explain a pod from the saved state of an extender.

    GET /debug/snapshot saves the state. The answer is the answer of the extender at that time. Exit 0 if the
    pod fits on some node, 3 if it fits on none.
    """
    if (pod is None) == (filename is None):
        which = "nothing to explain" if pod is None else "--pod and -f are too many"
        raise click.UsageError(f"{which}: give one of --pod, -f")
    try:
        explanation = _explained(file, pod, filename)
    except OverflowError as error:
        # Such a number decodes as an integer, and does not fit a column.
        raise SnapshotFileError(f"{file}: a number in it is out of range: {error}") from None
    _answer_with(ctx, explanation, output)


def _explained(file: Path, pod: tuple[str, str] | None, filename: Path | None) -> dict[str, Any]:
    with naming(file, SnapshotFileError):
        replayed = revived(decode_snapshot_file(read_file(file), Dump))
    explainer = Explainer(replayed, replayed.record, replayed.config)
    try:
        if pod is not None:
            return explainer.of_name(*pod)
        assert filename is not None
        # A snapshot belongs to no context: a pod without a namespace is in kubectl's default.
        given = read_pod(filename, "default", only=False)
        return explainer.of_manifest(given.pod, given.notes())
    except RequestError as error:
        if pod is not None and error.status == 404:
            raise PodError(
                f"{file}: pod {pod[0]}/{pod[1]}: no pod of this name waits for GPUs or holds some there, and "
                "none was decided about lately; give its manifest with -f FILE"
            ) from None
        raise PodError(f"{file}: {error}") from None


def _answer_with(ctx: click.Context, explanation: dict[str, Any], output: str) -> None:
    print_output(output, explanation, "node", explanation["best"], _print_explanation)
    ctx.exit(0 if explanation["fits"] else WOULD_NOT_FIT)


def _print_explanation(explanation: dict[str, Any], *, wide: bool) -> None:
    """The table; `wide` shows the scores of all nodes that fit."""
    show(request_line(explanation))
    print_notes([*explanation["warnings"], *not_modelled(explanation["notModelled"])])
    if explanation["fits"]:
        word = f" ({explanation['because']})" if explanation["because"] else ""
        show(f"Fits; best: {', '.join(explanation['best'][:10])}{word}")
    else:
        for line in why_not(explanation):
            show(line)
    print_notes(explanation.get("notes", ()))
    click.echo()
    print_nodes(explanation, wide=wide)


def print_nodes(explanation: dict[str, Any], *, wide: bool, here: str | None = None) -> None:
    """The verdict of every node, and the scores of the nodes that fit; `here` is the pod's own node."""
    preference: Columns = {}
    # Older extenders do not report it.
    if any(node.get("preference") for node in explanation["nodes"]):
        preference = {"PREFERENCE": lambda node: node["preference"] if node["verdict"] == "fits" else ""}
    columns: Columns = {
        "NODE": "node",
        "VERDICT": lambda node: node["verdict"] + (", is here" if node["node"] == here else ""),
        **preference,
        "SCORE": lambda node: node["score"] if node["verdict"] == "fits" else "",
        "TOTAL": lambda node: "" if node["total"] is None else f"{node['total']:.3f}",
        "MODEL": lambda node: node["model"] or "-",
        "FREE GPUS": lambda node: f"{node['freeGpus']} of {node['gpus']}",
        "REASON OR DEVICES": lambda node: node["reason"] or devices(node["devices"]),
        **({"NEW NODE": lambda node: node.get("autoscaler", "")} if wide else {}),
        "NEAREST MISS": nearest_miss,
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


@click.command()
@one_pod_options
@output_option
@click.pass_context
def capacity(ctx: click.Context, asked: OnePod, output: str) -> None:
    """Count how many more pods like this one fit.

    Shows the count for each node and the reason that blocks the next pod. Exit 0 if at least one pod fits, 3
    if none fits.
    """
    answer = asked.answer(capacity_of)
    names = (node["node"] for node in answer["nodes"] if node["count"] != 0)
    print_output(output, answer, "node", names, _print_capacity)
    ctx.exit(WOULD_NOT_FIT if answer["total"] == 0 else 0)


def _print_capacity(answer: dict[str, Any], *, wide: bool) -> None:
    show(request_line(answer))
    print_notes([*answer["warnings"], *not_modelled(answer["notModelled"])])
    total = "no limit is known" if answer["total"] is None else answer["total"]
    click.echo(f"Additional pods that fit: {total}")
    if answer["gpus"]:
        click.echo(f"GPUs that they use: {answer['gpus']}")
    print_notes(answer["notes"])
    following = answer["next"]
    if following["reason"] is not None:
        where = f" on {following['node']}" if following["node"] else ""
        miss = f" ({shortfall(following['nearestMiss'])})" if following["nearestMiss"] is not None else ""
        show(f"Next pod blocked by: {following['reason']}{where}{miss}")
    click.echo()
    nodes = answer["nodes"]
    empty = [node for node in nodes if node["count"] == 0]
    shown = nodes if wide else [node for node in nodes if node["count"] != 0] + empty[:_SHOWN_EMPTY]
    columns: Columns = {
        "NODE": "node",
        "COUNT": lambda node: "no limit" if node["count"] is None else node["count"],
        "GPUS": "gpus",
        "LIMIT": "limit",
    }
    print_items(columns, shown, wide=wide)
    if len(shown) < len(nodes):
        click.echo(f"and {len(nodes) - len(shown)} nodes that take none; -o wide shows them")
