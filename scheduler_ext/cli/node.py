"""`scheduler-ext nodes`, `node` and `pods`: the GPU nodes of a live cluster and the pods on them."""

from functools import partial
from itertools import groupby
from typing import Any

import click

from scheduler_ext.cli.answers import LiveCluster, live_options
from scheduler_ext.cli.inventory import is_uncertain, notes_of, print_listing
from scheduler_ext.cli.kubeconfigs import complete_nodes
from scheduler_ext.cli.options import all_namespaces_option, namespace_option, without_namespace_options
from scheduler_ext.cli.output import Columns, print_items, print_notes, print_output, show, styled
from scheduler_ext.core.errors import InventoryError
from scheduler_ext.explain.explain import API_VERSION
from scheduler_ext.printable import printable

_BAR_CELLS = 40
# Memory promised to pods, used by pods beyond this, used by no known pod, free, and
# free unless a pod holds this GPU and the agent has not seen which GPU the pod holds.
_PROMISED, _USED, _UNKNOWN, _FREE, _MAYBE = "#", "+", "!", ".", "?"
_COLOURS = {_PROMISED: "blue", _USED: "cyan", _UNKNOWN: "red"}
_POD_COLUMNS: Columns = {
    "NAME": "name",
    "STATE": "state",
    "NODE": lambda item: item["node"] or "-",
    "PRIORITY": lambda item: "-" if item["priority"] is None else item["priority"],
    "ASKS": "asks",
    "GPUS": lambda item: ",".join(device["uuid"] for device in item["devices"]) or "-",
    "REASON": "reason",
}
_WIDE_POD_COLUMNS: Columns = {
    "NEAREST": "nearest",
    "MOST NODES": lambda item: (
        "{nodes} of {of}: {reason}".format_map(item["commonest"]) if item["commonest"] else ""
    ),
}


@click.command()
@without_namespace_options
@live_options
def nodes(live: LiveCluster, output: str) -> None:
    """List the nodes with GPUs, free memory and MIG instances.

    -o wide lists every GPU.
    """
    print_listing(live.answers().inventory(), output)


@click.command()
@click.argument("name", shell_complete=complete_nodes)
@without_namespace_options
@live_options
def node(name: str, live: LiveCluster, output: str) -> None:
    """Show the GPUs of a node and the pods that hold them.

    Shows the memory of each GPU as a bar, and its MIG instances.
    """
    name = name.removeprefix("node/").removeprefix("nodes/")
    answering = live.answers()
    found = next((item for item in answering.inventory()["items"] if item["node"] == name), None)
    if found is None:
        raise InventoryError(f"node {name}: no node of this name has GPUs; `nodes` lists those that have")
    held = answering.ledger()["nodes"].get(name, {"devices": {}, "unknownDevices": []})
    header = {"apiVersion": API_VERSION, "kind": "GPUNodeHoldings"}
    print_output(output, {**header, **found, "holdings": held}, "node", [name], _print)


def _print(found: dict[str, Any], *, wide: bool) -> None:
    held = found["holdings"]
    show(f"Node {found['node']}: {found['state']}, known by its {found['source']}")
    if found["problem"]:
        print_notes([f"its report is refused: {found['problem']}"])
    click.echo(
        f"{_PROMISED} promised to pods  {_USED} used beyond  {_UNKNOWN} used by no known pod  {_FREE} free"
        + (f"  {_MAYBE} may be held" if found["unattributed"] else "")
        + (f"  {_MAYBE} may not be offered" if _some_unoffered(found) else "")
    )
    print_notes(notes_of(found))
    for device in found["devices"]:
        _print_device(device, held["devices"].get(device["uuid"], {"holdings": []}), wide=wide)
    if held["unknownDevices"]:
        click.echo()
    for entry in held["unknownDevices"]:
        who = f"{entry['namespace']}/{entry['name']}"
        show(f"on an unknown GPU: {entry['count']} {entry['resource']} of {who}")


def _some_unoffered(found: dict[str, Any]) -> bool:
    """Whether some GPUs or instances are not offered, and it is not known which."""
    parts = (part for device in found["devices"] for part in (device, *device["mig"]["instances"]))
    return any(part["offered"] is None for part in parts)


def _print_device(device: dict[str, Any], held: dict[str, Any], *, wide: bool) -> None:
    uuid = device["uuid"] or "one of several, known by labels"
    marks = {
        "UNHEALTHY": not device["healthy"],
        "cordoned": device["cordoned"],
        "not offered": device["offered"] is False,
    }
    words = [word for word, holds in marks.items() if holds]
    index = device["index"] if device["index"] is not None else "-"
    head = f"GPU {index}  {device['model']}  {uuid}" + (f"  {', '.join(words)}" if words else "")
    click.echo()
    click.echo(styled(printable(head), fg="red" if not device["healthy"] else None, bold=True))
    click.echo(f"  [{_bar(device)}] {_amounts(device)}")
    if wide:
        click.echo(f"  {_parts(device['memory'])}")
    holdings = list(held["holdings"])
    for instance in device["mig"]["instances"]:
        state = "free" if instance["free"] else "held"
        if is_uncertain(instance):
            state = "free?"
        elif instance["offered"] is False:
            state = "not offered"
        line = f"  {instance['profile']:<12} {_slots(instance):<12} {state:<5} {instance['uuid']}"
        place = (instance["profile"], instance["start"])
        its = (each for each in holdings if (each["profile"], each["start"]) == place)
        holder = None if instance["free"] else next(its, None)
        if holder is not None:
            holdings.remove(holder)
            line += f"  {_holder_text(holder)}"
        show(line)
    for holding in holdings:
        memory = "all of it" if holding["memoryMiB"] is None else f"{holding['memoryMiB']:,} MiB"
        show(f"  {_holder_text(holding)}: {memory if holding['profile'] is None else holding['profile']}")


def _slots(instance: dict[str, Any]) -> str:
    """The slots of the GPU that an instance takes."""
    start, size = instance["start"], instance["size"]
    if start is None:
        return f"{size} slots" if size > 1 else "1 slot"
    return f"slots {start}-{start + size - 1}" if size > 1 else f"slot {start}"


def _holder_text(holding: dict[str, Any]) -> str:
    """A pod and its container, with the state of its placement unless Confirmed."""
    state = "" if holding["state"] == "Confirmed" else f", {holding['state']}"
    container = f" ({holding['container']})" if holding["container"] else ""
    by_claim = f", by claim {holding['claim']}" if holding.get("by") == "claim" else ""
    # A claim that no pod uses now still holds its devices.
    name = holding["name"] or "no pod"
    return f"{holding['namespace']}/{name}{container}{by_claim}{state}"


def _bar(device: dict[str, Any]) -> str:
    """The GPU's memory in cells; an amount above 0 has at least one."""
    memory = device["memory"]
    total = memory["totalMiB"]
    if not total:
        return "?" * _BAR_CELLS
    unknown = memory["unaccountedMiB"] or 0
    promised = memory["requestedAtLeastMiB"] or 0
    beyond = max(0, (memory["usedMiB"] or 0) - unknown - promised)
    cells = ""
    for mark, mib in ((_PROMISED, promised), (_USED, beyond), (_UNKNOWN, unknown)):
        count = max(1, round(mib * _BAR_CELLS / total)) if mib else 0
        count = min(count, _BAR_CELLS - len(cells))
        cells += mark * count
    # Unused memory of a GPU that takes no pods is not free.
    rest = " " if memory["freeAtMostMiB"] == 0 else _MAYBE if is_uncertain(device) else _FREE
    cells += rest * (_BAR_CELLS - len(cells))
    return "".join(styled("".join(run), fg=_COLOURS.get(mark)) for mark, run in groupby(cells))


def _parts(memory: dict[str, Any]) -> str:
    parts = (
        ("requested", "requestedAtLeastMiB"),
        ("in use", "usedMiB"),
        ("unaccounted", "unaccountedMiB"),
        ("reserved", "reservedMiB"),
    )
    amounts = (f"{word} {memory[key]:,} MiB" for word, key in parts if memory[key] is not None)
    return ", ".join(amounts) or "no other amounts known"


def _amounts(device: dict[str, Any]) -> str:
    memory = device["memory"]
    free = "unknown" if memory["freeAtMostMiB"] is None else f"{memory['freeAtMostMiB']:,}"
    total = "unknown" if memory["totalMiB"] is None else f"{memory['totalMiB']:,}"
    amounts = f"{free} of {total} MiB free"
    if not is_uncertain(device):
        return amounts
    return f"at most {amounts}, {'may be held' if device['mayBeHeld'] else 'may not be offered'}"


@click.command()
@namespace_option
@all_namespaces_option
@live_options
def pods(namespace: str | None, all_namespaces: bool, live: LiveCluster, output: str) -> None:
    """List the pods that hold GPUs or wait for them.

    Shows the GPUs of each pod, or the reason why it waits.
    """
    only = None if all_namespaces else live.namespace(namespace)
    listing = live.answers().pods()
    items = [item for item in listing["items"] if only is None or item["namespace"] == only]
    names = (item["name"] for item in items)
    print_output(output, {**listing, "items": items}, "pod", names, partial(_print_pods, only))


def _print_pods(only: str | None, listing: dict[str, Any], *, wide: bool) -> None:
    items = listing["items"]
    if not items:
        click.echo("No pods with GPUs" + (f" in namespace {only}" if only is not None else ""), err=True)
        return
    print_items(
        ({"NAMESPACE": "namespace"} if only is None else {})
        | _POD_COLUMNS
        | (_WIDE_POD_COLUMNS if wide else {}),
        items,
        wide=wide,
    )
