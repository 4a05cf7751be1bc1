"""Names as Kubernetes has them."""

from __future__ import annotations

import re

# Those of namespaces and containers.
LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
# Those of nodes and pods.
NODE_NAME = POD_NAME = re.compile(r"[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?")
