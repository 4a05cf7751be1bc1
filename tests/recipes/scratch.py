"""A copy of the repository to which a recipe of CONTRIBUTING is applied."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Everything that the product and its tests read; no environment, build or history.
_COPIED = ("scheduler_ext", "tests", "config", "docs", "manifests", "benchmarks")


def recipe(title: str) -> list[str]:
    """The files that CONTRIBUTING's recipe of this title names, in order."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = re.split(rf"^### {re.escape(title)}$", text, flags=re.M)[1]
    body = re.split(r"^##", section, flags=re.M)[0]
    return re.findall(r"^\d+\. `([^`]+)`", body, flags=re.M)


class Scratch:
    """A copy of the repository; `touched` are the files that were written in it."""

    def __init__(self, directory: Path) -> None:
        self.root = directory
        self.touched: set[str] = set()

    @classmethod
    def copied(cls, directory: Path) -> Scratch:
        """A new copy of the present tree."""
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        for name in _COPIED:
            shutil.copytree(ROOT / name, directory / name, ignore=ignored, symlinks=True)
        for path in ROOT.iterdir():
            if path.is_file() and not path.name.startswith(".coverage"):
                shutil.copy(path, directory)
        return cls(directory)

    def write(self, path: str, text: str) -> None:
        """Create a file."""
        assert not (self.root / path).exists(), f"{path} exists already"
        (self.root / path).write_text(text)
        self.touched.add(path)

    def insert(self, path: str, before: str, text: str) -> None:
        """Insert text before the first occurrence of `before`."""
        content = (self.root / path).read_text()
        assert before in content, f"{path} has no {before!r}"
        (self.root / path).write_text(content.replace(before, text + before, 1))
        self.touched.add(path)

    def follows(self, files: list[str], most: int) -> None:
        """The touched files are those of the recipe, at most so many; NEW stands for a new file's name."""
        assert len(files) <= most
        patterns = [re.compile(re.escape(file).replace("NEW", r"\w+")) for file in files]
        for path in self.touched:
            assert any(pattern.fullmatch(path) for pattern in patterns), f"the recipe does not name {path}"
        for pattern in patterns:
            assert any(pattern.fullmatch(path) for path in self.touched), f"{pattern.pattern} was not touched"

    def passes(self, *tests: str) -> None:
        """These tests of the copy pass."""
        self.run("-m", "pytest", "-n0", "-p", "no:cacheprovider", "-m", "not e2e and not process", *tests)

    def run(self, *arguments: str, status: int = 0) -> str:
        """The output of the copy's Python with these arguments."""
        environment = os.environ | {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("PYTEST_XDIST_WORKER", None)
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout
