"""The machine under a node: directories of its own, and what its containers find in their environment."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path


class Host:
    """One node's; `environment` is what its container runtime adds to every container."""

    def __init__(self) -> None:
        self.environment: Mapping[str, str] = {}
        self._directories: dict[str, Path] = {}

    def path(self, path: str) -> Path:
        """Where a directory of the host is; short, because sockets have paths of at most 107 characters."""
        if path not in self._directories:
            self._directories[path] = Path(tempfile.mkdtemp(prefix="host-"))
        return self._directories[path]

    def close(self) -> None:
        """Remove its directories."""
        for directory in self._directories.values():
            shutil.rmtree(directory)
