"""`scheduler-ext queue`: the waiting pods in their order, with their places and when they will start."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import click

from scheduler_ext.cli.answers import FromExtender, LiveCluster, live_options
from scheduler_ext.cli.options import some_namespace_option
from scheduler_ext.cli.output import Columns, print_items, print_notes, print_output
from scheduler_ext.wire.times import seconds, span_text


@click.command()
@some_namespace_option
@live_options
def queue(namespace: str | None, live: LiveCluster, output: str) -> None:
    """List the pods that wait for GPUs, in the order in which they are tried.

    Shows the planned node of each pod, or the reason why it waits, and an estimate of its start. POS is the
    position in the whole queue, with --namespace too.
    """
    answers = live.answers()
    if isinstance(answers, FromExtender):
        only = f"?namespace={quote(namespace, safe='')}" if namespace is not None else ""
        listing = answers.required(f"/queue{only}")
    else:
        # Here, because an extender's answer needs no estimates.
        from scheduler_ext.features.gangs.queue.queue_once import queue_of_objects

        listing = queue_of_objects(answers, namespace)
    names = (each["name"] for item in listing["items"] for each in item["members"] or [item])
    print_output(output, listing, "pod", names, lambda value, wide: _print(value, namespace, wide=wide))


def _print(listing: dict[str, Any], namespace: str | None, *, wide: bool) -> None:
    items = listing["items"]
    if items:
        rows = [row for item in items for row in _rows(item, wide=wide)]
        columns = (
            dict(_COLUMNS) if namespace is None else {k: v for k, v in _COLUMNS.items() if k != "NAMESPACE"}
        )
        print_items(columns | (_WIDE_COLUMNS if wide else {}), rows, wide=wide)
    else:
        where = f" in namespace {namespace}" if namespace is not None else ""
        click.echo(f"No pods wait for GPUs{where}", err=True)
    print_notes(_notes(listing))


def _rows(item: dict[str, Any], *, wide: bool) -> list[dict[str, Any]]:
    """The row of a pod or a gang; `wide`, the members of a gang below it."""
    return [item, *(_member_row(each) for each in item["members"])] if wide else [item]


def _member_row(member: dict[str, Any]) -> dict[str, Any]:
    return {
        "position": "",
        "namespace": member["namespace"],
        "name": f"  {member['name']}",
        "gang": None,
        "members": [],
        "asks": "",
        "priority": "",
        "state": member["state"],
        "nodes": {member["node"]: 1} if member["node"] else {},
        "waitingSeconds": None,
        "start": None,
        "reason": "",
        "devices": {},
    }


def _notes(listing: dict[str, Any]) -> list[str]:
    notes = []
    if listing["items"] and not listing["planning"]:
        notes.append(_NO_PLAN if listing["planning"] is not None else _NO_EXTENDER)
    unknown = Counter(item["start"]["unknown"] for item in listing["items"] if item["start"]["unknown"])
    if unknown and listing["planning"] is not None and listing["runTimes"] is None:
        notes.append(_NO_RUN_TIMES)
    for reason, count in unknown.most_common(_MOST_NOTES):
        notes.append(f"{count} start{'s are' if count > 1 else ' is'} unknown: {reason}")
    return notes


def _name(item: dict[str, Any]) -> str:
    # Its other pods run, or do not exist yet.
    return f"{item['name']} ({len(item['members'])} of a gang)" if item["gang"] else str(item["name"])


def _node(item: dict[str, Any]) -> str:
    nodes = item["nodes"]
    if not nodes:
        return "-"
    return next(iter(nodes)) if len(nodes) == 1 else f"{len(nodes)} nodes"


def _start(item: dict[str, Any]) -> str:
    """The start from now on: "now", "20m - 2h", "within 3h", "unknown" (perhaps with the time before which it
    is unlikely)."""
    start = item["start"]
    if start is None:
        return ""
    earliest, latest = _from_now(start["earliest"]), _from_now(start["latest"])
    if latest is None:
        return "unknown" if earliest in (None, "now") else f"unknown, after {earliest}"
    if start["byStatedLimits"]:
        return f"within {latest} (limit)"
    if earliest == latest:
        return latest
    return f"within {latest}" if earliest in (None, "now") else f"{earliest} - {latest}"


def _from_now(text: str | None) -> str | None:
    at = seconds(text)
    if at is None:
        return None
    left_s = at - datetime.now(UTC).timestamp()
    return _about(left_s) if left_s >= 1 else "now"


def _about(span_s: float) -> str:
    """A time span without digits that an estimate does not have: 40s, 36m, 1h16m, 3d4h."""
    unit_s = 1 if span_s < 60 else 60
    return span_text(round(span_s / unit_s) * unit_s)


_NO_PLAN = "planning is off (nominate.enabled): no pod has a planned node, and the order is kube-scheduler's"
_NO_RUN_TIMES = "past run times are not remembered (queue.runTimes is 0): only stated limits count"
_MOST_NOTES = 5
_NO_EXTENDER = "without an extender, neither planned nodes nor past run times are known"

_COLUMNS: Columns = {
    "POS": "position",
    "NAMESPACE": "namespace",
    "POD": _name,
    "PRIORITY": "priority",
    "STATE": "state",
    "NODE": _node,
    "WAITING": lambda item: "" if item["waitingSeconds"] is None else _about(item["waitingSeconds"]),
    "START": _start,
    "REASON": "reason",
}
_WIDE_COLUMNS: Columns = {
    "ASKS": "asks",
    "START UNKNOWN BECAUSE": lambda item: (item["start"] or {}).get("unknown") or "-",
    "DEVICES": lambda item: ",".join(uuid for uuids in item["devices"].values() for uuid in uuids) or "-",
}
