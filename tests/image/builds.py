"""Builds of the image by `make image` with buildah, on bases that mmdebstrap makes from Debian's packages.

The build base stands for `python:3.13-slim-trixie`, the run base for distroless Python: Debian's own Python
without a shell, pip or other tools. Neither needs a registry of images.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.pages import ROOT

DEBIAN = "trixie"
BUILD_PACKAGES = ("python3", "python3-pip", "python3-venv", "ca-certificates")
RUN_PACKAGES = (
    *("python3.13-minimal", "libpython3.13-stdlib", "libstdc++6"),
    *("base-files", "ca-certificates", "tzdata", "netbase"),
)
# What a builder looks for when it is asked for an architecture.
VARIANTS = {"amd64": "", "arm64": "v8"}
EPOCH = 1_700_000_000
REVISION = "0123456789abcdef0123456789abcdef01234567"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_LOCALE = {"LANG": "C.UTF-8", "PATH": os.environ["PATH"], "BUILDAH_ISOLATION": "chroot"}


@dataclass(frozen=True, slots=True)
class Built:
    """An image in buildah's storage: the digest of its manifest, and its OCI configuration."""

    name: str
    digest: str
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Buildah:
    """buildah with a storage of its own, below `directory`."""

    directory: Path

    @property
    def command(self) -> list[str]:
        return ["buildah", "--root", str(self.directory / "root"), "--runroot", str(self.directory / "run")]

    def __call__(self, *arguments: str | Path) -> str:
        """Standard output without its last line feed; raises AssertionError with the output of a failure."""
        return run([*self.command, *map(str, arguments)])

    def base(self, role: str, architecture: str) -> str:
        """The name of a base ("build" or "run") made from Debian's packages."""
        name = f"localhost/{role}-base:{architecture}"
        archive = self.directory / f"{role}-{architecture}.tar"
        run(
            ["mmdebstrap", "--quiet", f"--architectures={architecture}", *_recipe(role), DEBIAN, str(archive)]
        )
        container = self("from", "--arch", architecture, "scratch")
        self("add", "--quiet", container, archive, "/")
        self("config", "--arch", architecture, "--variant", VARIANTS[architecture], container)
        self("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin", container)
        self("commit", "--quiet", "--rm", container, name)
        archive.unlink()
        return name

    def image(
        self, tag: str, *, source: Path = ROOT, architecture: str = "amd64", umask: int = 0o022
    ) -> Built:
        """`make image` in a checkout, on bases that exist. The commit is the same for every build."""
        name = f"localhost/scheduler-ext:{tag}"
        # pip trusts the authorities that this machine trusts.
        volume = f"--volume={_CERTIFICATES}:{_CERTIFICATES}:ro"
        make = ["make", "--no-print-directory", "image", f"IMAGE={name}", f"BUILDER={' '.join(self.command)}"]
        make += [f"EPOCH={EPOCH}", f"REVISION={REVISION}", f"ARGS={volume}"]
        make += ["BUILD_BASE=localhost/build-base:amd64", f"RUN_BASE=localhost/run-base:{architecture}"]
        make += [f"PLATFORM=linux/{architecture}"] if architecture != "amd64" else []
        run(make, directory=source, umask=umask)
        inspected = json.loads(self("inspect", "--type=image", name))
        return Built(name, digest=inspected["FromImageDigest"], config=inspected["OCIv1"])

    def mount(self, name: str) -> Path:
        """The root file system of an image."""
        return Path(self("mount", self("from", "--pull-never", name)))

    def remove(self) -> None:
        self("rm", "--all")
        shutil.rmtree(self.directory)


def _recipe(role: str) -> list[str]:
    if role == "build":
        return ["--variant=apt", f"--include={','.join(BUILD_PACKAGES)}"]
    # Unpacked, and not configured: that works for other architectures as well.
    link = 'ln -s python3.13 "$1/usr/bin/python3"'
    return ["--variant=extract", f"--include={','.join(RUN_PACKAGES)}", f"--extract-hook={link}"]


def run(command: list[str], *, directory: Path = ROOT, umask: int = 0o022) -> str:
    done = subprocess.run(
        command, cwd=directory, env=_LOCALE, umask=umask, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout.rstrip("\n")


def copy_of_the_checkout(target: Path) -> Path:
    """Its files with other times and modes than a fresh clone has."""
    listed = run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]).split("\0")
    for name in filter(None, listed):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name, follow_symlinks=False)
            if not (target / name).is_symlink():
                (target / name).chmod(0o600)
    return target
