"""The machine under a node: its own directories, and the environment of its containers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path


class Host:
    """One node's machine; `environment` is added to every container by its runtime."""

    def __init__(self) -> None:
        self.environment: Mapping[str, str] = {}
        self._directories: dict[str, Path] = {}

    def path(self, path: str) -> Path:
        """The path of a directory of the host; short, because sockets have paths of at most 107
        characters.
        """
        if path not in self._directories:
            self._directories[path] = Path(tempfile.mkdtemp(prefix="host-"))
        return self._directories[path]

    def close(self) -> None:
        """Remove its directories."""
        for directory in self._directories.values():
            shutil.rmtree(directory)
