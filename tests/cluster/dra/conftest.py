"""The fixture of Dynamic Resource Allocation."""

from tests.cluster.dra.fixtures import serve

__all__ = ["serve"]
