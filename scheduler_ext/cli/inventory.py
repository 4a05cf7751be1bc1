"""``scheduler-ext inventory``: what is known of every GPU."""

from __future__ import annotations

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
from scheduler_ext.cli.output import print_names, print_structured, print_table, printable
from scheduler_ext.views.listing import inventory_list


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
    listing = inventory_list(state.infos.values(), config, state.ages_s, state.problems)
    if output in ("json", "yaml"):
        print_structured(listing, output)
    elif output == "name":
        print_names("node", (item["node"] for item in listing["items"]))
    else:
        print_inventory(listing, wide=output == "wide")


def print_inventory(listing: dict[str, Any], *, wide: bool) -> None:
    """An InventoryList for people: a line for each node, or for each GPU."""
    if wide:
        _print_devices(listing["items"])
    else:
        _print_nodes(listing["items"])
    _print_notes(listing["items"])


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
                _sick(devices),
                _cordoned(item),
                sum(each["count"] for each in item["unattributed"]),
                ", ".join(dict.fromkeys(device["model"] for device in devices)) or "-",
                "unknown"
                if None in free
                else f"{sum(free)} of {sum(d['memory']['totalMiB'] for d in devices)}",
                counted(item["migFree"]),
            )
        )
    print_table(
        (
            "NODE",
            "STATE",
            "SOURCE",
            "GPUS",
            "SICK",
            "CORDONED",
            "HELD UNSEEN",
            "MODEL",
            "FREE MIB",
            "MIG FREE",
        ),
        rows,
    )


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
    header = (
        "NODE",
        "GPU",
        "UUID",
        "MODEL",
        "HEALTH",
        "CORDONED",
        "TOTAL MIB",
        "USED",
        "REQUESTED",
        "FREE",
        "MIG FREE",
    )
    print_table(header, rows, wide=True)


def _promised_and_free(device: dict[str, Any]) -> tuple[object, object]:
    """Of a GPU that may be one of those held, both as bounds."""
    memory = device["memory"]
    if memory["freeMiB"] is None:
        return "-", "-"
    if device["mayBeHeld"]:
        return f"≥{memory['requestedAtLeastMiB']}", f"≤{memory['freeAtMostMiB']}"
    return memory["requestedMiB"], memory["freeMiB"]


def _print_notes(items: list[dict[str, Any]]) -> None:
    """What a line per GPU has no place for."""
    for item in items:
        for each in item["unattributed"]:
            click.echo(printable(f"Note: {item['node']}: {each['text']}"))
        if item["problem"]:
            click.echo(printable(f"Note: {item['node']}: its report is refused, {item['source']} are shown"))
        if item["cordonsUnknown"]:
            named = ", ".join(item["cordonsUnknown"])
            click.echo(printable(f"Note: {item['node']}: cordoned, and no GPU of the node: {named}"))


def _cordoned(item: dict[str, Any]) -> str:
    """How many GPUs take nothing new, and how many that are none of the node's were meant to."""
    count, unknown = sum(device["cordoned"] for device in item["devices"]), len(item["cordonsUnknown"])
    return f"{count}, {unknown} unknown" if unknown else str(count)


def _sick(devices: list[dict[str, Any]]) -> int:
    return sum(not device["healthy"] for device in devices)


def _unheld(device: dict[str, Any], state: str) -> str:
    """The GPU's instances that nobody is known to hold, where it takes something new."""
    open_ = state != "Missing" and device["healthy"] and not device["cordoned"]
    free: dict[str, int] = {}
    for instance in device["mig"]["instances"]:
        free[instance["profile"]] = free.get(instance["profile"], 0) + (open_ and instance["free"])
    uncertain = any(instance["mayBeHeld"] for instance in device["mig"]["instances"])
    return ("≤" if uncertain else "") + counted(free)


def counted(instances: Mapping[str, int]) -> str:
    """How many MIG instances of which profile, in a few words."""
    return ",".join(f"{count}x{profile}" for profile, count in sorted(instances.items())) or "-"
