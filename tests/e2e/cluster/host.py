"""The machine under a node: its own directories, and the environment of its containers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.e2e.cluster.api import Json


class Host:
    """One node's machine; its runtime adds `environment` to the containers of pods that it gives GPUs to."""

    def __init__(self) -> None:
        self.environment: Mapping[str, str] = {}
        self.gives_gpus: Callable[[Json], bool] = lambda pod: True
        self._directories: dict[str, Path] = {}

    def environment_of(self, pod: Json) -> Mapping[str, str]:
        """The variables that the runtime adds to the pod's containers."""
        return self.environment if self.gives_gpus(pod) else {}

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
