"""The API server calls for gangs: gates that go, and evictions, which happen for all pods of a set or for
none."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import Protocol

from scheduler_ext.cluster.api_paths import budgets_path, pod_path
from scheduler_ext.cluster.client.transport import JSON, JSON_PATCH, RefusedError, Transport
from scheduler_ext.core.preemption.disruption import Budget
from scheduler_ext.core.request.gang_request import GangKey
from scheduler_ext.features.gangs.wire.gang_pod import GangPod, gang_eviction, gate_patch
from scheduler_ext.wire import selectors
from scheduler_ext.wire.watching import Decoder

log = logging.getLogger(__name__)

_CALL_S = 5.0
_BUDGETS = Decoder(selectors.PodDisruptionBudget)
# The pod is gone, or another one of its name has come.
_OVER = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
# The API server's words, with status 422, for a JSON patch whose test fails. Policies refuse with 422, too.
_NO_MATCH = "the server rejected our request due to an error in our request"


class PodReference(Protocol):
    """A pod by its names: waiting, of a gang, or bound."""

    @property
    def uid(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...


class GangCalls:
    """Safe to use from several threads. Calls raise ClusterError where nothing else is said."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def lift(self, pod: GangPod) -> bool:
        """Remove the gate of a pod; False if the pod has changed or gone meanwhile."""
        try:
            self._transport.send(
                "PATCH",
                pod_path(pod.namespace, pod.name),
                gate_patch(pod),
                JSON_PATCH,
                timeout_s=_CALL_S,
            )
        except RefusedError as error:
            if error.status in _OVER or _is_mismatch(error):
                return False
            raise
        return True

    def are_current(self, budgets: Iterable[Budget], victims: Collection[PodReference]) -> bool:
        """Whether the API server has these budgets, and no others, in the namespaces of several victims. A
        dry run judges each eviction alone, so that the first one by an outdated budget may be in vain."""
        if len(victims) < 2:
            return True
        namespaces = {victim.namespace for victim in victims}
        known = {(each.namespace, each.name): each for each in budgets if each.namespace in namespaces}
        return known == {
            (each.namespace, each.name): each for namespace in namespaces for each in self._budgets(namespace)
        }

    def _budgets(self, namespace: str) -> Iterator[Budget]:
        page = _BUDGETS.page(self._transport.get(budgets_path(namespace), timeout_s=_CALL_S).body)
        return map(selectors.budget, page.items)

    def evict_all(
        self, victims: Sequence[PodReference], of: GangKey, evicted: Callable[[PodReference], None]
    ) -> str | None:
        """Evict all these pods, if each eviction is allowed; otherwise none, and the reason. `evicted` is
        called for each pod that leaves, also if a later one fails. A pod that is gone already counts as
        evicted."""
        for dry_run in (True, False):
            for victim in victims:
                try:
                    self._evict(victim, of, dry_run)
                except RefusedError as error:
                    if error.status not in _OVER:
                        if not dry_run:
                            raise
                        return f"pod {victim.namespace}/{victim.name} may not be evicted now: {error}"
                if not dry_run:
                    evicted(victim)
        return None

    def _evict(self, victim: PodReference, of: GangKey, dry_run: bool) -> None:
        path = f"{pod_path(victim.namespace, victim.name)}/eviction"
        body = gang_eviction(victim.namespace, victim.name, victim.uid, str(of))
        query = {"dryRun": "All"} if dry_run else {}
        self._transport.send("POST", path, body, JSON, query, timeout_s=_CALL_S)


def _is_mismatch(error: RefusedError) -> bool:
    """Whether the pod has another uid, or its gate has gone meanwhile."""
    return error.status == HTTPStatus.UNPROCESSABLE_ENTITY and _NO_MATCH in str(error)
