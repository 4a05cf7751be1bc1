"""The fixtures of a followed cluster, with Dynamic Resource Allocation."""

from tests.cluster.dra.fixtures import serve
from tests.cluster.fixtures import impatient, living, quick, server, transport

__all__ = ["impatient", "living", "quick", "serve", "server", "transport"]
