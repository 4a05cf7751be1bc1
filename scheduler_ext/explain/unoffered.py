"""Requested resources and models that no node has: misspelt names, or names of another cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches

from scheduler_ext.core.filters.counts import offers
from scheduler_ext.core.framework.miss import few
from scheduler_ext.core.node.node import Node
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.request.resource_names import MIG_PREFIX, ResourceNames
from scheduler_ext.core.snapshot.snapshot import Snapshot
from scheduler_ext.wire.node_info import SHARE_NODE_LABEL

_NAMED = 6


def unoffered(request: GpuRequest, snapshot: Snapshot, resources: ResourceNames) -> list[str]:
    """A sentence for the models and each resource that no node has, with the existing ones."""
    missing = [*_resources(request, snapshot, resources), *_shares(request, snapshot)]
    return [*_models(request, snapshot), *(missing or _together(request, snapshot))]


def nodes_in_words(count: int) -> str:
    """A number of nodes: "1 node", "2,000 nodes"."""
    return "1 node" if count == 1 else f"{count:,} nodes"


def one_of(names: list[str]) -> str:
    """Alternatives: "a", "a or b", "a, b or c"."""
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _models(request: GpuRequest, snapshot: Snapshot) -> Iterator[str]:
    known = {name for model in snapshot.models for name in (model.name, model.family)}
    nowhere = [wish for wish in request.models if wish not in known]
    if nowhere:
        close = get_close_matches(nowhere[0], sorted(known), n=2)
        meant = f"; did you mean {one_of(close)}?" if close else ""
        yield f"no node has a GPU of model {few(nowhere)}{meant}"


def _resources(request: GpuRequest, snapshot: Snapshot, resources: ResourceNames) -> Iterator[str]:
    there = offers(snapshot.nodes.values())
    for ask in request.units:
        if not there[ask.resource]:
            mig = {name for name in there if name.startswith(MIG_PREFIX)}
            alike = mig if ask.profile is not None else there.keys() & {*resources.whole}
            kin = Counter({name: there[name] for name in sorted(alike or mig)})
            named = [f"{name} (on {nodes_in_words(n)})" for name, n in kin.most_common(_NAMED)]
            instead = f"; they offer {one_of(named)}" if named else ""
            yield f"no node offers {ask.resource}{instead}"


def _shares(request: GpuRequest, snapshot: Snapshot) -> Iterator[str]:
    if request.shares is not None and not any(map(_hands_out_shares, snapshot.nodes.values())):
        yield f"no node hands out memory shares: label nodes {SHARE_NODE_LABEL}=memory, or ask whole GPUs"


def _hands_out_shares(node: Node) -> bool:
    """Whether the node accepts shares, or would if its agent reported."""
    state = node.state
    return node.info.share_node or (state.offers_shares and state.gpus > 0 and not state.estimated)


def _together(request: GpuRequest, snapshot: Snapshot) -> Iterator[str]:
    """Resources that no node has side by side."""
    names = [ask.resource for ask in request.units]
    kinds = [*names, *(["memory shares"] if request.shares is not None else [])]
    if len(kinds) > 1 and not any(
        all(offers([node])[name] for name in names) and (request.shares is None or _hands_out_shares(node))
        for node in snapshot.nodes.values()
    ):
        yield f"no node offers {' and '.join(kinds)} together: ask for them in pods of their own"
