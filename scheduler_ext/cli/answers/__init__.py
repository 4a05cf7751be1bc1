"""Who answers questions about a cluster: its active extender, or what its own objects say.

An extender knows more, what it decided and what it has promised since; the objects are there without one.
"""

from __future__ import annotations

from typing import Any, Protocol

import click

from scheduler_ext.cli.answers.from_objects import FromObjects
from scheduler_ext.cluster.client.kubeconfig import Kubeconfig
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.wire.config import Configuration

SOURCES = ("auto", "extender", "cluster")
# How long each step to an extender may take; whether there is one is no question to wait long for.
_FIND_S = 5.0


class Answers(Protocol):
    """Answers as plain JSON values. All raise ClusterError, InventoryError."""

    def pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The Explanation of a pod; None where there is none that asks GPUs."""

    def inventory(self) -> dict[str, Any]:
        """The InventoryList."""

    def ledger(self) -> dict[str, Any]:
        """Who holds what: ``nodes`` of the ledger."""

    def pods(self) -> dict[str, Any]:
        """The GPUPodList."""


def answers(kubeconfig: Kubeconfig, source: str, namespace: str, config: Configuration) -> Answers:
    """Whoever answers: ``source`` is one of SOURCES, ``namespace`` is that of the extender.

    With "auto", where no extender can be asked, the cluster's objects do, and a note says so once they have
    answered. Raises ClusterError.
    """
    # Here, because importing the client takes longer than most commands.
    from scheduler_ext.cli.answers.from_extender import FromExtender
    from scheduler_ext.cluster.active_extender import ActiveExtender
    from scheduler_ext.cluster.client.transport import Transport, UnreachableError

    transport = Transport(kubeconfig.configuration())
    click.get_current_context().call_on_close(transport.close)
    if source == "cluster":
        return FromObjects(transport, str(kubeconfig), config)
    try:
        asked = FromExtender(ActiveExtender.find(transport, namespace, _FIND_S))
        asked.check(_FIND_S)
        return asked
    except UnreachableError as error:
        # Whoever did not answer this would not answer about its objects either.
        raise ClusterError(f"kubeconfig {kubeconfig}: {error}") from None
    except ClusterError as error:
        if source == "extender":
            raise ClusterError(f"no extender can be asked: {error}") from None
        note = f"Note: answered from the cluster's objects, as no extender can be asked: {error}"
    return FromObjects(transport, str(kubeconfig), config, note)
