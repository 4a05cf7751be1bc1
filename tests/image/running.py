"""Containers of the image under runc, as the manifests run them: a read-only root file system, no capability.

Their network is loopback alone.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from tests.image.builds import Built

_KINDS = ("bounding", "effective", "permitted", "inheritable", "ambient")


@dataclass(frozen=True, slots=True)
class Container:
    """A container on the file system `root` of an image; `user` None: the image's own."""

    image: Built
    root: Path
    bundle: Path
    mounts: Mapping[str, Path] = field(default_factory=dict)
    user: int | None = None

    def run(
        self, *arguments: str, entrypoint: Sequence[str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end with these arguments of the entrypoint."""
        name = self._write(arguments, entrypoint)
        command = ["runc", "run", "--bundle", str(self.bundle), name]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    @contextmanager
    def started(self, *arguments: str) -> Iterator[Started]:
        """Start the entrypoint with these arguments; the container is stopped at the end."""
        name = self._write(arguments, None)
        log = self.bundle / "log"
        with log.open("w") as output:
            process = subprocess.Popen(
                ["runc", "run", "--bundle", str(self.bundle), name], stdout=output, stderr=output
            )
        try:
            yield Started(name, process, log)
        finally:
            subprocess.run(["runc", "kill", name, "TERM"], capture_output=True, check=False)
            process.wait(60)

    def _write(self, arguments: Sequence[str], entrypoint: Sequence[str] | None) -> str:
        configured = self.image.config["config"]
        user, group = (
            (self.user, self.user) if self.user is not None else map(int, configured["User"].split(":"))
        )
        mounts = [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            # The one writable place: every runtime of Kubernetes brings it.
            {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "mode=1777"]},
        ]
        mounts += [
            {"destination": inside, "type": "bind", "source": str(outside), "options": ["bind", "ro"]}
            for inside, outside in self.mounts.items()
        ]
        specification = {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": user, "gid": group},
                "args": [*(entrypoint or configured["Entrypoint"]), *arguments],
                "env": configured["Env"],
                "cwd": configured.get("WorkingDir") or "/",
                "noNewPrivileges": True,
                "capabilities": {kind: [] for kind in _KINDS},
            },
            "root": {"path": str(self.root), "readonly": True},
            "mounts": mounts,
            "linux": {"namespaces": [{"type": kind} for kind in ("pid", "network", "mount", "ipc", "uts")]},
        }
        self.bundle.mkdir(parents=True, exist_ok=True)
        (self.bundle / "config.json").write_text(json.dumps(specification))
        return f"scheduler-ext-{uuid4().hex[:12]}"


@dataclass(frozen=True, slots=True)
class Started:
    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the container, with its user and variables."""
        return subprocess.run(
            ["runc", "exec", self.name, *command], capture_output=True, text=True, check=False
        )
