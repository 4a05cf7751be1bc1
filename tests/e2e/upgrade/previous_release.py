"""An earlier commit of this repository: its package, manifests and configuration."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.pages import ROOT

# The commit before this one, unless the variable names another.
REF = os.environ.get("UPGRADE_FROM", "")
_DEFAULT = "HEAD^"
# The runbooks are linked into the package.
_PARTS = ("manifests", "config", "scheduler_ext", "docs/runbooks")


@dataclass(frozen=True, slots=True)
class Release:
    """A tree of files, and the environment in which Python imports the package from it."""

    root: Path
    variables: Mapping[str, str]


PRESENT = Release(ROOT, {})


def previous_release(directory: Path) -> Release:
    """The release to upgrade from, exported to a new directory. Skips the test without its commit; fails if
    a commit that UPGRADE_FROM names is missing."""
    archive = ("git", "-C", str(ROOT), "archive", "--format=tar", REF or _DEFAULT, *_PARTS)
    done = subprocess.run(archive, capture_output=True, check=False)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        if REF:
            pytest.fail(f"UPGRADE_FROM={REF}: {said}")
        pytest.skip(f"needs the commit before this one, which this clone does not have: {said}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as parts:
        parts.extractall(directory, filter="data")
    # Safe path: otherwise the package in the working directory, the present one, would come first.
    release = Release(directory, {"PYTHONPATH": str(directory), "PYTHONSAFEPATH": "1"})
    program = (sys.executable, "-c", "import scheduler_ext; print(scheduler_ext.__file__)")
    environment = {**os.environ, **release.variables}
    done = subprocess.run(program, env=environment, cwd=ROOT, capture_output=True, check=True)
    assert Path(done.stdout.decode().strip()) == directory / "scheduler_ext" / "__init__.py"
    return release
