"""The page's routes about pods, each for a part that is open: one pod, lists, and sums by namespace."""

import time
from collections.abc import Sequence
from typing import Any

from flask import Blueprint, Response, request

from scheduler_ext.core.errors import RequestError
from scheduler_ext.features.page.pod_lists import SORTS, PlacedPods, PodQuery
from scheduler_ext.features.page.pod_view import pod_view
from scheduler_ext.server.explaining import Explaining, namespaced
from scheduler_ext.server.replies import compressed, problem_reply
from scheduler_ext.server.serving import Serving
from scheduler_ext.sources.source_status import Source
from scheduler_ext.wire.extender_args import encode_json

_MOST_NODES = 20
_MOST_PODS = 200
_MOST_FOUND = 20
_MOST_NAMESPACES = 1000
# More nodes than any cluster has.
_ALL_NODES = 2**31
# A namespace and a name have 63 and 253 characters at most, a label's value has 63.
_MOST_CHARS = 320


def pods_blueprint(source: Source, explaining: Explaining, features: Serving) -> Blueprint:
    """Routes about the pods that hold GPUs or wait for some."""
    routes = Blueprint("pods", __name__)
    placed = PlacedPods()

    @routes.get("/page/pod")
    def pod() -> Response:
        def answer() -> dict[str, Any]:
            # A dry run of evictions on each of thousands of nodes takes a second, and the page shows none.
            asked = namespaced(request.args.get("pod"))
            found = explaining.explainer.of_name(*asked, _ALL_NODES, dry_runs=False)
            return pod_view(found, source.snapshot, source.pending(), _MOST_NODES)

        return explaining.reply(answer)

    @routes.get("/page/pods")
    def pods() -> Response:
        try:
            wanted = PodQuery(
                **{field: _text(field) for field in PodQuery.__slots__ if field != "sort"}, sort=_sort()
            )
        except RequestError as error:
            return problem_reply(error.status, str(error), "page")
        listed = placed.listed(source.snapshot, wanted, _MOST_PODS)
        return _listed(listed | {"pods": with_facts(listed["pods"])})

    def with_facts(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows of pods, with the time without work of idle ones, where a feature knows it."""
        nodes = source.snapshot.nodes if source.snapshot is not None else {}
        infos = [nodes[name].info for name in {row["node"] for row in rows} & nodes.keys()]
        facts = features.facts_of_pods(infos, source.status(), time.time())
        return [row | {"idleSeconds": facts.get(row["uid"], {}).get("idleSeconds")} for row in rows]

    @routes.get("/page/search")
    def search() -> Response:
        try:
            find = _text("find")
        except RequestError as error:
            return problem_reply(error.status, str(error), "page")
        found = placed.found(source.snapshot, source.pending(), find, _MOST_FOUND)
        return _listed(found)

    @routes.get("/page/namespaces")
    def namespaces() -> Response:
        sums = placed.by_namespace(source.snapshot, source.pending(), _MOST_NAMESPACES)
        return _listed(sums)

    return routes


def _listed(values: dict[str, Any]) -> Response:
    return compressed(Response(content_type="application/json"), encode_json(values))


def _text(field: str) -> str:
    text = request.args.get(field, "")
    if len(text) > _MOST_CHARS:
        raise RequestError(400, f"{field}: {len(text)} characters; give at most {_MOST_CHARS}")
    return text


def _sort() -> str:
    order = _text("sort") or "name"
    if order not in SORTS:
        raise RequestError(400, f"sort: {order[:80]!r}; give one of {', '.join(SORTS)}")
    return order
