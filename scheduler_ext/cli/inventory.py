"""`scheduler-ext inventory`: the known GPUs of every node."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import click

from scheduler_ext.cli.files import config_option
from scheduler_ext.cli.inputs import ClusterInput, source_options
from scheduler_ext.cli.options import output_option
from scheduler_ext.cli.output import Columns, print_items, print_notes, print_output
from scheduler_ext.core.filters.fresh import FreshInventory
from scheduler_ext.explain.ineffective import shortened
from scheduler_ext.explain.sentences import listed
from scheduler_ext.views.listing import inventory_list
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.times import span_text

# Of the nodes in a note.
_NAMED = 3


@click.command()
@source_options()
@config_option
@output_option
def inventory(source: ClusterInput, config: Configuration, output: str) -> None:
    """List nodes with their GPUs, free memory and MIG instances."""
    state = source.state(config)
    print_listing(
        inventory_list(state.infos.values(), config, state.ages_s, state.problems, state.readings), output
    )
    if state.claims is not None and output in ("table", "wide"):
        print_notes(shortened(state.claims.pool_problems()))


def print_listing(listing: dict[str, Any], output: str) -> None:
    """An InventoryList in the form of `-o`."""
    print_output(output, listing, "node", (item["node"] for item in listing["items"]), print_inventory)


def print_inventory(listing: dict[str, Any], *, wide: bool) -> None:
    """A line for each node, or with `wide` for each GPU."""
    items = listing["items"]
    if wide:
        devices = [{"item": item} | device for item in items for device in item["devices"]]
        print_items(_DEVICE_COLUMNS, devices, wide=True)
    else:
        print_items(_NODE_COLUMNS, items)
    for item in items:
        refused = [f"its report is refused, {item['source']} are shown"] if item["problem"] else []
        print_notes(f"{item['node']}: {note}" for note in (*refused, *notes_of(item)))
    labelled = [item["node"] for item in items if item["source"] == "labels" and item["state"] == "Fresh"]
    if labelled:
        names, reason = listed(labelled, "and", _NAMED), FreshInventory.reason.text
        print_notes([f"known by labels alone: {names}. Pods that need a report are refused: {reason}"])


def notes_of(item: dict[str, Any]) -> list[str]:
    """What a reader needs to know of a node beside its GPUs."""
    notes = [each["text"] for each in (*item["unattributed"], *item["notOffered"])]
    notes += [item[each] for each in ("change", "layoutProblem", "withoutReport") if item[each]]
    if item["cordonsUnknown"]:
        notes.append(f"cordoned, and no GPU of the node: {', '.join(item['cordonsUnknown'])}")
    return notes


def _free_memory(item: dict[str, Any]) -> str:
    memories = [device["memory"] for device in item["devices"]]
    free = [memory["freeMiB"] for memory in memories]
    if None in free or _are_uncounted(item):
        return "unknown"
    return f"{sum(free)} of {sum(each['totalMiB'] for each in memories)}"


def _are_uncounted(item: dict[str, Any]) -> bool:
    """Whether labels speak of GPUs, and do not say how many are handed out whole."""
    return item["source"] == "labels" and not item["devices"]


def _requested(device: dict[str, Any]) -> object:
    """The requested memory; at least how much of a GPU that may be held."""
    memory = device["memory"]
    return f"≥{memory['requestedAtLeastMiB']}" if device["mayBeHeld"] else _or_dash(memory["requestedMiB"])


def _free(device: dict[str, Any]) -> object:
    """The free memory; at most how much of a GPU that may be held, or may not be offered."""
    sign = "≤" if is_uncertain(device) or any(map(is_uncertain, device["mig"]["instances"])) else ""
    most = device["memory"]["freeAtMostMiB"]
    return "-" if most is None else f"{sign}{most}"


def is_uncertain(part: dict[str, Any]) -> bool:
    """Whether it is not known if a GPU or an instance is free."""
    return part["mayBeHeld"] or part["offered"] is None


def _or_dash(value: object) -> object:
    return "-" if value is None else value


def _cordoned(item: dict[str, Any]) -> str:
    """The number of cordoned GPUs, and of cordoned UUIDs that no GPU of the node has."""
    count, unknown = sum(device["cordoned"] for device in item["devices"]), len(item["cordonsUnknown"])
    return f"{count}, {unknown} unknown" if unknown else str(count)


def _unheld(device: dict[str, Any]) -> str:
    """The GPU's instances without a known holder that are offered, if the GPU takes pods."""
    item = device["item"]
    is_out = item["change"] or (item["state"] == "Missing" and not item["byAllocatable"])
    open_ = not is_out and device["healthy"] and not device["cordoned"]
    instances = device["mig"]["instances"]
    free: Counter[str] = Counter()
    for instance in instances:
        free[instance["profile"]] += open_ and instance["free"] and instance["offered"] is not False
    uncertain = any(map(is_uncertain, instances))
    return ("≤" if uncertain else "") + counted(free)


def counted(instances: Mapping[str, int]) -> str:
    """MIG instances by profile, such as 2x1g.10gb."""
    return ",".join(f"{count}x{profile}" for profile, count in sorted(instances.items())) or "-"


_NODE_COLUMNS: Columns = {
    "NODE": "node",
    "STATE": "state",
    "SOURCE": lambda item: item["source"] + (", report refused" if item["problem"] else ""),
    "GPUS": lambda item: "-" if _are_uncounted(item) else f"{item['gpus']:g}",
    "SICK": lambda item: sum(not device["healthy"] for device in item["devices"]),
    "CORDONED": _cordoned,
    "UNATTRIBUTED": lambda item: sum(each["count"] for each in item["unattributed"]),
    "MODEL": lambda item: ", ".join(dict.fromkeys(each["model"] for each in item["devices"])) or "-",
    "FREE MIB": _free_memory,
    "MIG FREE": lambda item: counted(item["migFree"]),
}
_DEVICE_COLUMNS: Columns = {
    "NODE": lambda device: device["item"]["node"],
    "GPU": "index",
    "UUID": lambda device: device["uuid"] or "-",
    "MODEL": "model",
    "HEALTH": lambda device: "Healthy" if device["healthy"] else "Unhealthy",
    "CORDONED": lambda device: "yes" if device["cordoned"] else "-",
    "TOTAL MIB": lambda device: _or_dash(device["memory"]["totalMiB"]),
    "USED": lambda device: _or_dash(device["memory"]["usedMiB"]),
    "REQUESTED": _requested,
    "FREE": _free,
    "MIG FREE": _unheld,
    "BUSY %": lambda device: _or_dash(device["utilizationPercent"]),
    "IDLE": lambda device: "-" if device["idleSeconds"] is None else span_text(device["idleSeconds"]),
}
