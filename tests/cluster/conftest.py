"""The fixtures of a followed cluster."""

from tests.cluster.fixtures import bindings, candidates, followed, impatient, living, quick, server, transport

__all__ = ["bindings", "candidates", "followed", "impatient", "living", "quick", "server", "transport"]
