"""Answers about a live cluster: from its active extender, or from its own objects. The extender also knows
its past decisions and the placements under way. The objects need no extender."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from scheduler_ext.cli.files import config_option
from scheduler_ext.cli.kubeconfigs import complete_namespaces, kubeconfig_of, transport_of
from scheduler_ext.cli.options import bundled, context_option, kubeconfig_option_with, output_option
from scheduler_ext.cli.output import show
from scheduler_ext.core.errors import ClusterError, RequestError
from scheduler_ext.explain.explain import explain
from scheduler_ext.explain.explainer import Explainer, other_scheduler, unschedulable_message
from scheduler_ext.explain.snapshot_dump import RecordedCluster, read_moment
from scheduler_ext.explain.waiting import WaitingPods, pod_list
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.views.ledger_dump import ledger_dump
from scheduler_ext.views.listing import inventory_list
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import read_pods
from scheduler_ext.wire.pod.pod_identity import is_finished, is_terminating
from scheduler_ext.wire.pod.pod_request import asks_gpu

if TYPE_CHECKING:
    from scheduler_ext.cluster.active_extender import ActiveExtender
    from scheduler_ext.cluster.client.transport import Transport

_SOURCES = ("auto", "extender", "cluster")
# The limit of each step towards an extender: its absence should show soon.
_FIND_S = 5.0


class LiveCluster:
    """The live cluster of a command and the source of its answers; `source` is one of _SOURCES."""

    def __init__(
        self,
        kubeconfig: Path | None,
        context: str | None,
        source: str,
        extender_namespace: str,
        config: Configuration,
    ) -> None:
        self._kubeconfig = kubeconfig_of(kubeconfig, context)
        self._source = source
        self._extender_namespace = extender_namespace
        self._config = config

    def namespace(self, chosen: str | None) -> str:
        """The chosen namespace, or that of the context. Raises ClusterError."""
        return self._kubeconfig.namespace() if chosen is None else chosen

    def answers(self) -> FromExtender | FromObjects:
        """The source of answers; "auto" falls back to the cluster's objects, with a note. Raises
        ClusterError."""
        from scheduler_ext.cluster.active_extender import ActiveExtender
        from scheduler_ext.cluster.client.transport import UnreachableError

        transport = transport_of(self._kubeconfig)
        click.get_current_context().call_on_close(transport.close)
        if self._source == "cluster":
            return FromObjects(transport, str(self._kubeconfig), self._config)
        try:
            asked = FromExtender(ActiveExtender.find(transport, self._extender_namespace, _FIND_S))
            asked.required("/inventory?node=", timeout_s=_FIND_S)
            return asked
        except UnreachableError as error:
            # An API server that does not answer this would not answer about its objects either.
            raise ClusterError(f"kubeconfig {self._kubeconfig}: {error}") from None
        except ClusterError as error:
            if self._source == "extender":
                raise ClusterError(f"no extender is available: {error}") from None
            note = f"Note: answered from the cluster's objects, because no extender is available: {error}"
        return FromObjects(transport, str(self._kubeconfig), self._config, note)


live_options = bundled(
    LiveCluster,
    "live",
    kubeconfig_option_with(help="Kubeconfig file (default: $KUBECONFIG, then ~/.kube/config)."),
    context_option,
    click.option(
        "--from",
        "source",
        type=click.Choice(_SOURCES),
        default="auto",
        help="Source of the answer: the active extender or the cluster's objects; auto prefers the extender.",
    ),
    click.option(
        "--extender-namespace",
        default="gpu-scheduler",
        shell_complete=complete_namespaces,
        help="Namespace of the extender.",
    ),
    config_option,
    output_option,
)


class FromExtender:
    """Answers of the active extender's inspection listener, as plain JSON values, one connection each. All
    methods raise ClusterError, InventoryError."""

    def __init__(self, extender: ActiveExtender) -> None:
        self._extender = extender

    def pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The Explanation of a pod; None without a pod of this name that requests GPUs."""
        return self._extender.get(f"/explain?pod={quote(namespace, safe='')}/{quote(name, safe='')}")

    def inventory(self) -> dict[str, Any]:
        return self.required("/inventory")

    def ledger(self) -> dict[str, Any]:
        """The holdings of pods: `nodes` of the ledger."""
        return self.required("/debug/ledger")

    def pods(self) -> dict[str, Any]:
        return self.required("/pods")

    def required(self, path: str, **limits: float) -> dict[str, Any]:
        """The answer of a route that every current release has. Raises ClusterError."""
        answer = self._extender.get(path, **limits)
        if answer is None:
            raise ClusterError(f"extender {self._extender.pod} does not serve {path}: its release is older")
        return answer


class FromObjects:
    """Answers from the cluster's own objects, as a running extender would give them. The cluster is read
    once, for the first question."""

    def __init__(
        self, transport: Transport, source: str, config: Configuration, note: str | None = None
    ) -> None:
        self._transport = transport
        self._source = source
        self.config = config
        self._note = note

    @cached_property
    def state(self) -> ClusterState:
        """The cluster."""
        from scheduler_ext.cluster.one_shot import cluster_state

        with self._answering():
            return cluster_state(self._transport, self._source, self.config, with_objects=True)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """For requests to the API server: errors name the kubeconfig, and the note follows an answer."""
        try:
            yield
        except ClusterError as error:
            raise ClusterError(f"kubeconfig {self._source}: {error}") from None
        if self._note is not None:
            show(self._note, err=True)
            self._note = None

    @cached_property
    def moment(self) -> RecordedCluster:
        """The cluster as a decision sees it."""
        return read_moment(self.state, self.config)

    @cached_property
    def explainer(self) -> Explainer:
        """Explains its pods."""
        return Explainer(self.moment, self.moment.record, self.config)

    def pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The Explanation by all of kube-scheduler's filters: all Nodes and pods are known here."""
        from scheduler_ext.cluster.api_paths import pod_path
        from scheduler_ext.cluster.client.transport import RefusedError

        path = pod_path(namespace, name)
        with self._answering():
            try:
                body = self._transport.json(path)
            except RefusedError as error:
                if error.status != 404:
                    raise
                body = None
        if body is None:
            return None
        (pod,) = read_pods(json.dumps({"kind": "Pod"} | body).encode())
        spec = pod.spec or kube.PodSpec()
        if spec.node_name:
            # A pod on its node is explained as if it were created again.
            try:
                return self.explainer.of_name(namespace, name)
            except RequestError as error:
                if error.status == 404:
                    return None
                raise ClusterError(str(error)) from None
        if not asks_gpu(spec, self.config.resource_names()) or is_finished(pod):
            return None
        explanation = explain(pod, self.state, self.config)
        stranger = other_scheduler(spec.scheduler_name or "", False, self.config)
        return explanation | {
            "warnings": [*([stranger] if stranger else []), *explanation["warnings"]],
            "generation": None,
            "gone": False,
            "terminating": is_terminating(pod),
            "boundTo": None,
            "holds": [],
            "kubeScheduler": unschedulable_message(pod),
            "recorded": None,
        }

    def inventory(self) -> dict[str, Any]:
        state = self.state
        return inventory_list(state.infos.values(), self.config, state.ages_s, state.problems, state.readings)

    def ledger(self) -> dict[str, Any]:
        return ledger_dump(self.moment.snapshot, self.config.resource_names())

    def pods(self) -> dict[str, Any]:
        waiting = WaitingPods(self.moment, self.moment.record, self.explainer)
        return pod_list(self.state.infos.values(), waiting.lines())
