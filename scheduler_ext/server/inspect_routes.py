"""The inspection listener's answers: GPUs, pods, why a pod is on its node or waits, and dumps."""

from flask import Blueprint, Response, request

from scheduler_ext.core.errors import InventoryError, RequestError
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.waiting import WaitingPods, pod_list
from scheduler_ext.server.accepted import MANIFEST_TYPES, check_content
from scheduler_ext.server.explaining import Explaining, namespaced
from scheduler_ext.server.http.body import BodyError, read_body, received_at
from scheduler_ext.server.replies import problem_reply
from scheduler_ext.server.shared_answers import SharedAnswers, shared_reply
from scheduler_ext.sources.source_status import Source
from scheduler_ext.views.ledger_dump import ledger_dump
from scheduler_ext.views.listing import inventory_list
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.extender_args import encode_json
from scheduler_ext.wire.objects import read_manifests
from scheduler_ext.wire.yaml_values import POSTED

# The limit of `kubectl apply`: YAML is read in Python, and decisions sometimes wait for it.
MAX_MANIFEST_BYTES = 256 * 1024
# Fields that are compared with every node. Real pods have a few of each.
_MAX_REQUIREMENTS = 100
_MAX_VALUES = 1000
_MAX_RESOURCES = 100


def explanations_blueprint(explaining: Explaining) -> Blueprint:
    """Routes that explain a named or a posted pod."""
    routes = Blueprint("explanations", __name__)
    explainer = explaining.explainer

    @routes.get("/explain")
    def explain_by_name() -> Response:
        return explaining.reply(
            lambda: explainer.of_name(*namespaced(request.args.get("pod")), _most_nodes())
        )

    @routes.post("/explain")
    def explain_manifest() -> Response:
        try:
            check_content(request.environ, MANIFEST_TYPES, ", ".join(MANIFEST_TYPES))
            body = read_body(request.environ, MAX_MANIFEST_BYTES)
        except (BodyError, RequestError) as error:
            return problem_reply(error.status, str(error), "explain")
        return explaining.reply(lambda: explainer.of_manifest(*_only_pod(body), _most_nodes()))

    return routes


def questions_blueprint(
    source: Source, config: Configuration, explainer: Explainer, waiting: WaitingPods
) -> Blueprint:
    """Routes about the cluster: inventory, pods, snapshot and ledger."""
    routes = Blueprint("questions", __name__)
    resources = config.resource_names()

    inventories, pod_lists, snapshots, ledgers = (SharedAnswers[bytes]() for _ in range(4))

    def infos() -> list[NodeInfo]:
        snapshot = source.snapshot
        return [node.info for node in snapshot.nodes.values()] if snapshot is not None else []

    def listed(name: str | None) -> bytes:
        asked = [info for info in infos() if name in (None, info.name)]
        status = source.status()
        return encode_json(inventory_list(asked, config, status.report_ages_s, readings=status.readings))

    @routes.get("/inventory")
    def inventory() -> Response:
        return shared_reply(inventories, listed, request.args.get("node"))

    @routes.get("/pods")
    def pods() -> Response:
        return shared_reply(pod_lists, lambda: encode_json(pod_list(infos(), waiting.lines())))

    @routes.get("/debug/snapshot")
    def snapshot() -> Response:
        try:
            body = snapshots.answer(None, received_at(request.environ), explainer.snapshot_file)
        except RequestError as error:
            return problem_reply(error.status, str(error), "snapshot")
        response = Response(body, content_type="application/gzip")
        response.headers["Content-Disposition"] = 'attachment; filename="scheduler-ext-snapshot.json.gz"'
        return response

    @routes.get("/debug/ledger")
    def ledger() -> Response:
        return shared_reply(ledgers, lambda: encode_json(ledger_dump(source.snapshot, resources)))

    return routes


def _only_pod(body: bytes) -> tuple[kube.Pod, list[str]]:
    """The pod of a posted manifest, and notes about it. Raises RequestError."""
    try:
        manifests = read_manifests(body, POSTED)
    except InventoryError as error:
        raise RequestError(400, str(error)) from None
    if len(manifests) != 1:
        raise RequestError(400, f"{len(manifests)} pods in it; send one")
    metadata = manifests[0].pod.metadata or kube.ObjectMeta()
    for field, value in (("namespace", metadata.namespace), ("name", metadata.name)):
        if "/" in (value or ""):
            # Together they would be read as another pod's.
            raise RequestError(
                400,
                f"metadata.{field}: {(value or '')[:80]!r}; no {field} has a slash: give one such as 'a-1'",
            )
    _refuse_laborious(manifests[0].pod.spec or kube.PodSpec())
    return manifests[0].pod, manifests[0].notes()


def _refuse_laborious(spec: kube.PodSpec) -> None:
    """Raises RequestError for more than any real pod has in the fields that are compared with every node."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = (affinity.required.node_selector_terms if affinity and affinity.required else None) or ()
    preferred = (affinity.preferred if affinity else None) or ()
    terms = (*required, *(each.preference or kube.NodeSelectorTermObject() for each in preferred))
    parts = [part for term in terms for part in (*(term.match_expressions or ()), *(term.match_fields or ()))]
    values = sum(len(part.values or ()) for part in parts)
    containers = (*(spec.init_containers or ()), *(spec.containers or ()))
    asked = [
        each.resources for each in (*containers, spec) if each is not None and each.resources is not None
    ]
    amounts = [spec.overhead, *(part for each in asked for part in (each.limits, each.requests))]
    names = {name for part in amounts for name in part or ()}
    counts = (
        ("spec.affinity.nodeAffinity: terms and requirements", len(terms) + len(parts), _MAX_REQUIREMENTS),
        ("spec.affinity.nodeAffinity: values", values, _MAX_VALUES),
        ("spec: kinds of resources", len(names), _MAX_RESOURCES),
    )
    for what, count, most in counts:
        if count > most:
            raise RequestError(400, f"{what}: {count}; send at most {most}")


def _most_nodes() -> int | None:
    """The number of nodes to show; None for all. Raises RequestError."""
    most = request.args.get("nodes")
    if most is None:
        return None
    if not most.isascii() or not most.isdecimal() or len(most) > 9:
        raise RequestError(400, f"nodes: {most[:80]!r}; give a number of nodes to show, 0 to 999999999")
    return int(most)
