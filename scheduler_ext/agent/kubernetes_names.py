"""Patterns of Kubernetes names."""

from __future__ import annotations

import re

# Names of namespaces and containers.
LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
# Names of nodes and pods.
NODE_NAME = POD_NAME = re.compile(r"[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?")
