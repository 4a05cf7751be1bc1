"""Build the archive of the kubectl plugin for this platform, and the krew manifest that names it.

    python manifests/krew/build.py WHEEL REQUIREMENTS URL build/krew

The archive has the package, what it needs (REQUIREMENTS, with hashes), and a launcher; Python itself is the
machine's.
"""

from __future__ import annotations

import gzip
import hashlib
import platform
import subprocess
import sys
import tarfile
from pathlib import Path

import yaml

BIN = "kubectl-gpu_placement"
TEMPLATE = Path(__file__).with_name("gpu-placement.yaml")
ARCHES = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
LAUNCHER = """#!/usr/bin/env python{python}
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "lib"))
from scheduler_ext.main import kubectl

kubectl()
"""


def main(wheel: Path, requirements: Path, url: str, out: Path) -> None:
    """Write the archive and the manifest, and say where."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    version = wheel.name.split("-")[1]
    system, arch = platform.system().lower(), ARCHES[platform.machine()]
    folder = out / "plugin"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
    install += ["--target", str(folder / "lib")]
    subprocess.run([*install, "--require-hashes", "--requirement", str(requirements)], check=True)
    subprocess.run([*install, str(wheel)], check=True)
    (folder / BIN).write_text(LAUNCHER.format(python=python))
    (folder / BIN).chmod(0o755)
    archive = out / f"{BIN}-v{version}-{system}-{arch}.tar.gz"
    pack(folder, archive)
    words = {
        "VERSION": version,
        "URL": url.rstrip("/"),
        "PYTHON": python,
        "OS": system,
        "ARCH": arch,
        "ARCHIVE": archive.name,
        "SHA256": hashlib.sha256(archive.read_bytes()).hexdigest(),
    }
    text = "".join(line for line in TEMPLATE.read_text().splitlines(True) if not line.startswith("#"))
    for word in sorted(words, key=len, reverse=True):
        text = text.replace(word, words[word])
    manifest = out / TEMPLATE.name
    manifest.write_text(text)
    yaml.safe_load(text)
    print(f"{archive}\n{manifest}")


def pack(folder: Path, archive: Path) -> None:
    """All files in order, without times and owners: the same files make the same archive."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
        return entry

    files = sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts and path.is_file())
    with (
        archive.open("wb") as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for path in files:
            tar.add(path, path.relative_to(folder).as_posix(), recursive=False, filter=plain)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
