"""``scheduler-ext inventory``: the known GPUs of every node."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from scheduler_ext.cli.inputs import read_config, source_of
from scheduler_ext.cli.options import (
    config_option,
    context_option,
    inventory_option,
    kubeconfig_option,
    output_option,
)
from scheduler_ext.cli.output import print_notes, print_output, print_table
from scheduler_ext.views.listing import inventory_list

_NODE_HEADER = (
    *("NODE", "STATE", "SOURCE", "GPUS", "SICK", "CORDONED"),
    *("HELD UNSEEN", "MODEL", "FREE MIB", "MIG FREE"),
)
_DEVICE_HEADER = (
    *("NODE", "GPU", "UUID", "MODEL", "HEALTH", "CORDONED"),
    *("TOTAL MIB", "USED", "REQUESTED", "FREE", "MIG FREE"),
)


@click.command()
@inventory_option
@kubeconfig_option
@context_option
@config_option
@output_option
def inventory(
    inventory_file: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    config_file: Path | None,
    output: str,
) -> None:
    """List nodes with their GPUs, free memory and MIG instances."""
    config = read_config(config_file)
    state = source_of(inventory_file, kubeconfig, context).state(config)
    print_listing(inventory_list(state.infos.values(), config, state.ages_s, state.problems), output)


def print_listing(listing: dict[str, Any], output: str) -> None:
    """An InventoryList in the form of ``-o``."""
    print_output(output, listing, "node", (item["node"] for item in listing["items"]), print_inventory)


def print_inventory(listing: dict[str, Any], *, wide: bool) -> None:
    """A line for each node, or with ``wide`` for each GPU."""
    items = listing["items"]
    (_print_devices if wide else _print_nodes)(items)
    for item in items:
        notes = [each["text"] for each in item["unattributed"]]
        if item["problem"]:
            notes.append(f"its report is refused, {item['source']} are shown")
        if item["cordonsUnknown"]:
            notes.append(f"cordoned, and no GPU of the node: {', '.join(item['cordonsUnknown'])}")
        print_notes(f"{item['node']}: {note}" for note in notes)


def _print_nodes(items: list[dict[str, Any]]) -> None:
    rows = []
    for item in items:
        devices = item["devices"]
        free = [device["memory"]["freeMiB"] for device in devices]
        rows.append(
            (
                item["node"],
                item["state"],
                item["source"] + (", report refused" if item["problem"] else ""),
                len(devices),
                sum(not device["healthy"] for device in devices),
                _cordoned(item),
                sum(each["count"] for each in item["unattributed"]),
                ", ".join(dict.fromkeys(device["model"] for device in devices)) or "-",
                "unknown"
                if None in free
                else f"{sum(free)} of {sum(d['memory']['totalMiB'] for d in devices)}",
                counted(item["migFree"]),
            )
        )
    print_table(_NODE_HEADER, rows)


def _print_devices(items: list[dict[str, Any]]) -> None:
    rows = []
    for item in items:
        for device in item["devices"]:
            memory = device["memory"]
            rows.append(
                (
                    item["node"],
                    device["index"],
                    device["uuid"] or "-",
                    device["model"],
                    "Healthy" if device["healthy"] else "Unhealthy",
                    "yes" if device["cordoned"] else "-",
                    *("-" if memory[key] is None else memory[key] for key in ("totalMiB", "usedMiB")),
                    *_promised_and_free(device),
                    _unheld(device, item["state"]),
                )
            )
    print_table(_DEVICE_HEADER, rows, wide=True)


def _promised_and_free(device: dict[str, Any]) -> tuple[object, object]:
    """Both amounts; bounds for a GPU that may be held."""
    memory = device["memory"]
    if memory["freeMiB"] is None:
        return "-", "-"
    if device["mayBeHeld"]:
        return f"≥{memory['requestedAtLeastMiB']}", f"≤{memory['freeAtMostMiB']}"
    return memory["requestedMiB"], memory["freeMiB"]


def _cordoned(item: dict[str, Any]) -> str:
    """The number of cordoned GPUs, and of cordoned UUIDs that no GPU of the node has."""
    count, unknown = sum(device["cordoned"] for device in item["devices"]), len(item["cordonsUnknown"])
    return f"{count}, {unknown} unknown" if unknown else str(count)


def _unheld(device: dict[str, Any], state: str) -> str:
    """The GPU's instances without a known holder, if the GPU takes pods."""
    open_ = state != "Missing" and device["healthy"] and not device["cordoned"]
    instances = device["mig"]["instances"]
    free: Counter[str] = Counter()
    for instance in instances:
        free[instance["profile"]] += open_ and instance["free"]
    uncertain = any(instance["mayBeHeld"] for instance in instances)
    return ("≤" if uncertain else "") + counted(free)


def counted(instances: Mapping[str, int]) -> str:
    """MIG instances by profile, such as 2x1g.10gb."""
    return ",".join(f"{count}x{profile}" for profile, count in sorted(instances.items())) or "-"
