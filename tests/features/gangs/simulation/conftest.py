"""The fixtures of commands."""

from tests.cli.fixtures import cluster, no_kubeconfig, written
from tests.sim.commands.fixtures import traces

__all__ = ["cluster", "no_kubeconfig", "traces", "written"]
