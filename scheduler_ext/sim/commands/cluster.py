"""`scheduler-ext simulate cluster`: the placement of pods on a cluster, one after the other."""

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from itertools import chain
from pathlib import Path
from typing import Any

import click

from scheduler_ext.cli.explain import WOULD_NOT_FIT
from scheduler_ext.cli.files import config_option, naming
from scheduler_ext.cli.inputs import ClusterInput, read_pod_list, source_options
from scheduler_ext.cli.inventory import counted
from scheduler_ext.cli.options import FILE_OR_STDIN, namespace_option, out_option_with, output_option
from scheduler_ext.cli.output import Columns, print_items, print_notes, print_output, show
from scheduler_ext.core.errors import InventoryError, SimulationError
from scheduler_ext.explain.in_words import devices, not_modelled, shortfall
from scheduler_ext.explain.ineffective import misspellings, unserved
from scheduler_ext.explain.quotas import quota_notes
from scheduler_ext.sim.cluster.simulation import by_priority, refuse_running
from scheduler_ext.sim.cluster.simulation import simulate as simulate_pods
from scheduler_ext.sim.commands.comparison import comparison, print_comparison
from scheduler_ext.sim.commands.options import placement_policy_option, policies_of
from scheduler_ext.sim.commands.results import check_file, write_text
from scheduler_ext.sim.extension import extensions
from scheduler_ext.sim.policies.default import Default
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.manifests import every_pod
from scheduler_ext.wire.pod.pod_identity import pod_name

_SHOWN_NOTES = 5
_HELP = """Place pods on a cluster, one after the other.

Each pod goes to the node that kube-scheduler and the extender would choose{}. Exit 0 if all pods fit, 3 if
any pod does not. With --policy, a table compares the policies on a simplified cluster."""


@click.command(help=_HELP.format("".join(each.cluster_help for each in extensions())))
@source_options(
    "--cluster",
    click.option(
        "--cluster",
        "inventory_file",
        type=FILE_OR_STDIN,
        help="Inventory file, or `kubectl get nodes,pods,pdb,gpunodes.gpu.scheduler-ext.io -A -o yaml`.",
    ),
)
@click.option(
    "--pods",
    "pods_file",
    type=FILE_OR_STDIN,
    required=True,
    help="File with the new Pods, or workloads with pod templates; - reads standard input.",
)
@namespace_option
@click.option(
    "--order",
    type=click.Choice(["file", "priority"]),
    default="file",
    help="Order of the pods: as in the file, or by priority as in kube-scheduler's queue.",
)
@placement_policy_option
@config_option
@output_option
@out_option_with(help="Output file (default: standard output).")
@click.pass_context
def cluster(
    ctx: click.Context,
    source: ClusterInput,
    pods_file: Path,
    namespace: str | None,
    order: str,
    policies: Sequence[str],
    config: Configuration,
    output: str,
    out: Path | None,
) -> None:
    check_file("--out", out)
    compared = None if tuple(policies) == (Default.name,) else policies_of(policies)
    manifests = read_pod_list(pods_file, source.namespace(namespace), only=namespace is not None)
    with naming(pods_file, InventoryError):
        pods = every_pod(manifests)
    # Each manifest has the claims of the whole file.
    claims = manifests[0].claims if manifests else ()
    quotas = manifests[0].quotas if manifests else ()
    state = source.state(config, with_objects=True, with_quotas=True, claims=claims)
    pods = by_priority(pods) if order == "priority" else pods
    with naming(state.source, InventoryError):
        if compared is None:
            with _naming_pods(pods_file):
                answer = simulate_pods(pods, state, config)
        else:
            with _naming_pods(pods_file):
                refuse_running(pods, state.objects)
            answer = comparison(pods, state, config, compared)
    mistakes = _by_text(
        (text, pod_name(pod))
        for pod in pods
        for text in (
            *unserved(pod, config),
            *misspellings(pod, config.resource_names(), state.infos.values()),
        )
    )
    # The manifests of a workload share notes, and each has those on the whole file.
    notes = chain.from_iterable(manifest.notes() for manifest in manifests)
    exceeded = quota_notes([(pod, 1) for pod in pods], state, quotas, claims)
    for note in (*dict.fromkeys(notes), *exceeded, *mistakes):
        show(f"Note: {note}", err=True)
    items = answer["items"]
    text = io.StringIO()
    with nullcontext() if out is None else redirect_stdout(text):
        if compared is None:
            placed = (item["pod"].partition("/")[2] for item in items if item["node"] is not None)
            print_output(output, answer, "pod", placed, _print)
        else:
            print_output(output, answer, "policy", compared, print_comparison)
    if out is not None:
        write_text("--out", out, text.getvalue())
    fits = (
        item["node"] is not None if compared is None else item["podsPlaced"] == len(pods) for item in items
    )
    ctx.exit(0 if all(fits) else WOULD_NOT_FIT)


@contextmanager
def _naming_pods(pods_file: Path) -> Iterator[None]:
    """Errors inside are of the pods in this file."""
    try:
        yield
    except SimulationError as error:
        raise SimulationError(f"{pods_file}: {error}") from None


def _by_text(notes: Iterable[tuple[str, str]], *, wide: bool = False) -> list[str]:
    """Notes on pods, each text once with the pods that it is about; only the first ones unless `wide`."""
    pods: dict[str, list[str]] = {}
    for text, pod in notes:
        pods.setdefault(text, []).append(pod)
    found = []
    for text, names in pods.items():
        shown = names if wide else names[:_SHOWN_NOTES]
        more = len(names) - len(shown)
        found.append(f"{text} ({', '.join(shown)}" + (f" and {more} more)" if more else ")"))
    return found


def _print(simulation: dict[str, Any], *, wide: bool) -> None:
    items = simulation["items"]
    placed = sum(item["node"] is not None for item in items)
    evicted = sum(len(item["victims"]) for item in items)
    click.echo(
        f"{placed} of {len(items)} pods fit" + (f"; {evicted} are evicted for them" if evicted else "")
    )
    if gangs := {_gang(item) for item in items if item["gang"] is not None}:
        fitting = {_gang(item) for item in items if item["node"] is not None} & gangs
        click.echo(f"{len(fitting)} of {len(gangs)} gangs fit")
    if value := sum(item["valuePerHour"] or 0.0 for item in items):
        show(f"Value of the GPUs that they take: {value:,.2f} {simulation['currency']} per hour")
    features = ((feature, item["pod"]) for item in items for feature in item["notModelled"])
    print_notes(not_modelled(_by_text(features, wide=wide)))
    click.echo()
    columns: Columns = {
        "POD": "pod",
        "NODE": lambda item: item["node"] or "none",
        "REASON OR DEVICES": lambda item: item["reason"] or devices(item["devices"]),
        "NEAREST MISS": lambda item: (
            item["message"] or (shortfall(item["nearestMiss"]) if item["nearestMiss"] else "")
        ),
        "VICTIMS": lambda item: ", ".join(item["victims"]),
    }
    if gangs:
        beside: Columns = {"POD": "pod", "GANG": lambda item: item["gang"] or ""}
        columns = beside | columns
    if wide:
        columns |= {"NEAREST NODE": "nearestNode", "MIG INSTANCES": _instances}
        columns |= {
            "VALUE/H": lambda item: "" if item["valuePerHour"] is None else f"{item['valuePerHour']:.2f}"
        }
    print_items(columns, items, wide=wide)


def _gang(item: dict[str, Any]) -> tuple[str, str]:
    """The namespace and the name."""
    return item["pod"].partition("/")[0], item["gang"]


def _instances(item: dict[str, Any]) -> str:
    return counted(Counter(entry["profile"] for entry in item["devices"] if entry["profile"]))
