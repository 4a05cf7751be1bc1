"""Answers from the cluster's own objects: what a running extender would say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from scheduler_ext.cli.output import printable
from scheduler_ext.core.errors import ClusterError, RequestError
from scheduler_ext.explain.explain import explain
from scheduler_ext.explain.explainer import Explainer, other_scheduler
from scheduler_ext.explain.pod_list import pod_list
from scheduler_ext.explain.recorded import unschedulable_message
from scheduler_ext.explain.waiting import Waiting
from scheduler_ext.extender.record import Record
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.views.ledger_dump import ledger_dump
from scheduler_ext.views.listing import inventory_list
from scheduler_ext.whatif.offline import Offline, offline
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import read_pods
from scheduler_ext.wire.pod import asks_gpu, is_finished

if TYPE_CHECKING:
    from scheduler_ext.cluster.client.transport import Transport


class FromObjects:
    """Reads the cluster once, when the first question comes."""

    def __init__(
        self, transport: Transport, source: str, config: Configuration, note: str | None = None
    ) -> None:
        self._transport = transport
        self._source = source
        self._config = config
        self._note = note

    @cached_property
    def _state(self) -> ClusterState:
        from scheduler_ext.cluster.one_shot import cluster_state

        with self._answering():
            return cluster_state(self._transport, self._source, self._config, with_objects=True)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """What the API server is asked in: errors name the kubeconfig, and the note waits for an answer."""
        try:
            yield
        except ClusterError as error:
            raise ClusterError(f"kubeconfig {self._source}: {error}") from None
        if self._note is not None:
            click.echo(printable(self._note), err=True)
            self._note = None

    @cached_property
    def _offline(self) -> Offline:
        return offline(self._state, self._config)

    def pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        """All of kube-scheduler's filters are followed, as all Nodes and pods are here."""
        body = self._manifest(namespace, name)
        if body is None:
            return None
        (pod,) = read_pods(json.dumps({"kind": "Pod"} | body).encode())
        spec = pod.spec or kube.PodSpec()
        if spec.node_name:
            return self._bound(namespace, name)
        if not asks_gpu(spec, self._config.resource_names()) or is_finished(pod):
            return None
        told = explain(pod, self._state, self._config)
        stranger = other_scheduler(spec.scheduler_name or "", False, self._config)
        return told | {
            "warnings": [*([stranger] if stranger else []), *told["warnings"]],
            "generation": None,
            "gone": False,
            "boundTo": None,
            "holds": [],
            "kubeScheduler": unschedulable_message(pod),
            "recorded": None,
        }

    def _manifest(self, namespace: str, name: str) -> dict[str, Any] | None:
        from scheduler_ext.cluster.client.transport import RefusedError

        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
        with self._answering():
            try:
                return self._transport.json(path)
            except RefusedError as error:
                if error.status == 404:
                    return None
                raise

    def _bound(self, namespace: str, name: str) -> dict[str, Any] | None:
        """A pod on its node, explained as if it came again."""
        explainer = Explainer(self._offline, Record(0, 0), self._config)
        try:
            return explainer.of_name(namespace, name)
        except RequestError as error:
            if error.status == 404:
                return None
            raise ClusterError(str(error)) from None

    def inventory(self) -> dict[str, Any]:
        state = self._state
        return inventory_list(state.infos.values(), self._config, state.ages_s, state.problems)

    def ledger(self) -> dict[str, Any]:
        return ledger_dump(self._offline.snapshot, self._config.resource_names())

    def pods(self) -> dict[str, Any]:
        explainer = Explainer(self._offline, Record(0, 0), self._config)
        waiting = Waiting(self._offline, Record(0, 0), explainer)
        return pod_list(self._state.infos.values(), waiting.lines())
