"""Tables of node groups in a few words."""

from __future__ import annotations

import json
from typing import Any

from scheduler_ext.features.autoscaling.node_groups.table import API_VERSION, NodeGroups, load_node_groups
from tests.kube_objects import Json


def group(name: str = "g", **fields: Any) -> Json:
    """A group of machines with two L4."""
    return {"name": name, "instanceTypes": ["m.2"], "model": "L4", "gpusPerNode": 2, "max": 3} | fields


def table_bytes(*groups: Json, **fields: Any) -> bytes:
    return json.dumps({"apiVersion": API_VERSION, "kind": "NodeGroups", "groups": groups} | fields).encode()


def table(*groups: Json, **fields: Any) -> NodeGroups:
    return load_node_groups(table_bytes(*groups, **fields))


SHARES: Json = {"handOut": "memory-shares"}
SPOT: Json = {"capacityType": "spot"}
SLICES: Json = {"handOut": "time-slicing", "replicas": 4}


def sliced(strategy: str = "mixed", model: str = "A100-80GB", **profiles: int) -> Json:
    """MIG; profiles as keywords, p3g_40gb for 3g.40gb."""
    named = {name.removeprefix("p").replace("_", "."): count for name, count in profiles.items()}
    return {"model": model, "handOut": "mig", "mig": {"profiles": named, "strategy": strategy}}
