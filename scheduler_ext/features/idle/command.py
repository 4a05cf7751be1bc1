"""`scheduler-ext idle`: pods that hold GPUs and compute nothing."""

from typing import Any

import click

from scheduler_ext.cli.files import config_option
from scheduler_ext.cli.inputs import ClusterInput, source_options
from scheduler_ext.cli.options import output_option, some_namespace_option
from scheduler_ext.cli.output import Columns, print_items, print_notes, print_output
from scheduler_ext.core.gpu.value_table import DIGITS
from scheduler_ext.features.idle.idle_pods import idle_pod_list
from scheduler_ext.views.value_account import ALSO_IDLE
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.times import span_text


@click.command()
@some_namespace_option
@source_options()
@config_option
@output_option
def idle(source: ClusterInput, config: Configuration, namespace: str | None, output: str) -> None:
    """List the pods whose GPUs have computed nothing for a while.

    The pod that wastes the most value per hour comes first. A pod is idle after idle.after (30m) without
    work, by the utilisation of its GPUs and never by the memory that it keeps.
    """
    state = source.state(config)
    nodes = state.snapshot(config.sizing()).nodes.values()
    listing = idle_pod_list(nodes, config, state.readings, state.facts, source.moment(state), namespace)
    names = (item["name"] for item in listing["items"])
    print_output(output, listing, "pod", names, _print)


def _print(listing: dict[str, Any], *, wide: bool) -> None:
    items = listing["items"]
    if items:
        print_items(_COLUMNS | (_WIDE_COLUMNS if wide else {}), items, wide=wide)
        click.echo()
        print_items(_SUM_COLUMNS, [*listing["namespaces"], _total(listing)])
    else:
        click.echo("No idle pods", err=True)
    notes = []
    listed = _total(listing)["valuePerHour"]
    if f"{listed:.2f}" != f"{listing['idleGpuValue']:.2f}":
        notes.append(
            f"pods without any work waste {listed:.2f} {listing['currency']} per hour; IDLE of `cost` is "
            f"{listing['idleGpuValue']:.2f}: it counts GPUs, {ALSO_IDLE}"
        )
    if unknown := listing["unknownPods"]:
        pods = "1 running pod with GPUs is" if unknown == 1 else f"{unknown} running pods with GPUs are"
        notes.append(f"{pods} left out: no agent reports when {'it' if unknown == 1 else 'they'} computed")
    print_notes(notes)


def _total(listing: dict[str, Any]) -> dict[str, Any]:
    sums = listing["namespaces"]
    keys = ("pods", "gpus", "valuePerHour", "wastedValue")
    return {"namespace": "all"} | {key: round(sum(each[key] for each in sums), DIGITS) for key in keys}


_COLUMNS: Columns = {
    "NAMESPACE": "namespace",
    "POD": "name",
    "OWNER": lambda item: item["owner"] or "-",
    "NODE": "node",
    "GPUS": lambda item: f"{item['gpus']:g}",
    "MODEL": lambda item: ", ".join(dict.fromkeys(each["model"] for each in item["devices"])),
    "IDLE": lambda item: span_text(item["idleSeconds"]),
    "VALUE/H": lambda item: f"{item['valuePerHour']:.2f}",
    "WASTED": lambda item: f"{item['wastedValue']:.2f}",
}
_WIDE_COLUMNS: Columns = {
    "SINCE": "since",
    "DEVICES": lambda item: ",".join(each["uuid"] for each in item["devices"]),
    "RECLAIM AT": lambda item: item["reclaimAt"] or "-",
}
_SUM_COLUMNS: Columns = {
    "NAMESPACE": "namespace",
    "PODS": "pods",
    "GPUS": lambda each: f"{each['gpus']:g}",
    "VALUE/H": lambda each: f"{each['valuePerHour']:.2f}",
    "WASTED": lambda each: f"{each['wastedValue']:.2f}",
}
