"""`simulate cluster --policy`: policies compared on the same cluster and pods."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from scheduler_ext.cli.output import Columns, print_items, print_notes, show
from scheduler_ext.sim.cluster_dump import ClusterDump
from scheduler_ext.sim.custom_policy import CustomPolicy
from scheduler_ext.sim.policy_comparison import PolicyResult, compare_policies
from scheduler_ext.sim.simulation_report import API_VERSION
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration


def comparison(
    pods: Sequence[kube.Pod],
    state: ClusterState,
    config: Configuration,
    policies: Mapping[str, CustomPolicy | None],
) -> dict[str, Any]:
    """The PolicyComparison as plain JSON values. Raises SimulationError for a policy with a mistake,
    InventoryError for an object of the cluster."""
    dump = ClusterDump(state, config.sizing())
    new = dump.trace_pods(pods)
    results = compare_policies(dump, new, policies, config.policy())
    return {
        "apiVersion": API_VERSION,
        "kind": "PolicyComparison",
        "currency": config.cost.currency,
        "items": [_item(result, config.cost.per_unit) for result in results],
        "notModelled": dump.notes,
    }


def _item(result: PolicyResult, per_unit: float) -> dict[str, Any]:
    return {
        "policy": result.policy,
        "pods": result.pods,
        "podsPlaced": result.pods_placed,
        "gpusPlaced": round(result.gpus_placed, 3),
        "allocatedPercent": round(result.allocated_percent, 4),
        "allocatedValuePerHour": round(per_unit * result.allocated_value_per_hour, 4),
        "fragmentationPercent": round(result.fragmentation_percent, 4),
        "notPlaced": list(result.not_placed),
    }


def print_comparison(value: dict[str, Any], *, wide: bool) -> None:
    """The comparison as a table; `wide` also names the pods that a policy does not place."""
    notes = value["notModelled"]
    print_notes(notes)
    if notes:
        click.echo()
    columns: Columns = {
        "POLICY": "policy",
        "PODS PLACED": lambda item: f"{item['podsPlaced']} of {item['pods']}",
        "GPUS PLACED": lambda item: f"{item['gpusPlaced']:.2f}",
        "ALLOCATED %": lambda item: f"{item['allocatedPercent']:.2f}",
        "ALLOCATED VALUE/H": lambda item: f"{item['allocatedValuePerHour']:.2f}",
        "FRAGMENTED %": lambda item: f"{item['fragmentationPercent']:.2f}",
    }
    if wide:
        columns |= {"NOT PLACED": lambda item: ", ".join(item["notPlaced"])}
    print_items(columns, value["items"], wide=wide)
    click.echo()
    per_hour = f"{value['currency']} per hour"
    show(f"ALLOCATED and FRAGMENTED: of all GPUs, with the running pods. VALUE/H: {per_hour}.")
