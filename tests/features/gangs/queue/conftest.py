"""The fixtures of commands."""

from tests.cli.fixtures import cluster, no_kubeconfig, written

__all__ = ["cluster", "no_kubeconfig", "written"]
