"""``scheduler-ext simulate cluster``: what would happen to these pods here, in order?"""

from __future__ import annotations

import io
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

from scheduler_ext.cli.explain import WOULD_NOT_FIT, devices, shortfall
from scheduler_ext.cli.inputs import read_config, source_of
from scheduler_ext.cli.inventory import counted
from scheduler_ext.cli.options import (
    config_option,
    context_option,
    kubeconfig_option,
    namespace_option,
    output_option,
)
from scheduler_ext.cli.output import print_names, print_structured, print_table, printable
from scheduler_ext.cli.pod_files import every_pod_of, read_pod_list
from scheduler_ext.cli.simulate.results import check_file, write_text
from scheduler_ext.core.errors import InventoryError, SimulationError
from scheduler_ext.whatif.simulation import by_priority
from scheduler_ext.whatif.simulation import simulate as simulate_pods

_SHOWN_NOTES = 5


@click.command()
@click.option(
    "--cluster",
    "cluster_file",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Inventory file, or `kubectl get nodes,pods,pdb,gpunodes.gpu.scheduler-ext.io -A -o yaml`.",
)
@kubeconfig_option
@context_option
@click.option(
    "--pods",
    "pods_file",
    type=click.Path(path_type=Path, allow_dash=True),
    required=True,
    help="File of the Pods that are to come, or of workloads with pod templates; - for standard input.",
)
@namespace_option
@click.option(
    "--order",
    type=click.Choice(["file", "priority"]),
    default="file",
    show_default=True,
    help="Which pod comes first: as in the file, or by priority as in kube-scheduler's queue.",
)
@config_option
@output_option
@click.option("--out", type=click.Path(path_type=Path), help="Where to write it; standard output without.")
@click.pass_context
def cluster(
    ctx: click.Context,
    cluster_file: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    pods_file: Path,
    namespace: str | None,
    order: str,
    config_file: Path | None,
    output: str,
    out: Path | None,
) -> None:
    """Place pods on a cluster, one after the other.

    Each pod goes where kube-scheduler and the extender would put it. Exit 0 if all fit, 3 if any does not.
    """
    source = source_of(cluster_file, kubeconfig, context, "--cluster")
    check_file("--out", out)
    config = read_config(config_file)
    manifests = read_pod_list(pods_file, source.namespace(namespace), only=namespace is not None)
    pods = every_pod_of(manifests, pods_file)
    state = source.state(config, with_objects=True)
    try:
        simulation = simulate_pods(by_priority(pods) if order == "priority" else pods, state, config)
    except SimulationError as error:
        raise SimulationError(f"{pods_file}: {error}") from None
    except InventoryError as error:
        raise InventoryError(f"{state.source}: {error}") from None
    for manifest in manifests:
        for note in manifest.notes():
            click.echo(printable(f"Note: {note}"), err=True)
    if out is None:
        _print(simulation, output)
    else:
        _write(simulation, output, out)
    ctx.exit(0 if all(item["node"] is not None for item in simulation["items"]) else WOULD_NOT_FIT)


def _write(simulation: dict[str, Any], output: str, out: Path) -> None:
    text = io.StringIO()
    with redirect_stdout(text):
        _print(simulation, output)
    write_text("--out", out, text.getvalue())


def _print(simulation: dict[str, Any], output: str) -> None:
    items = simulation["items"]
    if output in ("json", "yaml"):
        print_structured(simulation, output)
    elif output == "name":
        print_names("pod", (item["pod"].partition("/")[2] for item in items if item["node"] is not None))
    else:
        _print_table(items, wide=output == "wide")


def _print_table(items: list[dict[str, Any]], *, wide: bool) -> None:
    placed = sum(item["node"] is not None for item in items)
    evicted = sum(len(item["victims"]) for item in items)
    click.echo(
        f"{placed} of {len(items)} pods fit" + (f"; {evicted} are evicted for them" if evicted else "")
    )
    features: dict[str, list[str]] = {}
    for item in items:
        for feature in item["notModelled"]:
            features.setdefault(feature, []).append(printable(item["pod"]))
    for feature, pods in features.items():
        shown = pods if wide else pods[:_SHOWN_NOTES]
        more = len(pods) - len(shown)
        who = ", ".join(shown) + (f" and {more} more" if more else "")
        click.echo(f"Note: not modelled here, kube-scheduler may decide otherwise: {feature} ({who})")
    click.echo()
    header = ["POD", "NODE", "REASON OR DEVICES", "NEAREST MISS", "VICTIMS"]
    rows = [
        [
            item["pod"],
            item["node"] or "none",
            item["reason"] or devices(item["devices"]),
            item["message"] or (shortfall(item["nearestMiss"]) if item["nearestMiss"] else ""),
            ", ".join(item["victims"]),
        ]
        for item in items
    ]
    if wide:
        header += ["NEAREST NODE", "MIG INSTANCES"]
        rows = [
            [
                *row,
                item["nearestNode"],
                counted(Counter(e["profile"] for e in item["devices"] if e["profile"])),
            ]
            for row, item in zip(rows, items, strict=True)
        ]
    print_table(header, rows, wide=wide)
