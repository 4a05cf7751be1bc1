"""The fixtures of a followed cluster."""

from tests.cluster.fixtures import impatient, living, quick, server, transport

__all__ = ["impatient", "living", "quick", "server", "transport"]
