"""A source on the fake library, in this process, and pynvml in its initial state."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from scheduler_ext.agent.node_reading import DeviceReading, NodeReading
from scheduler_ext.agent.nvml_source import NvmlSource
from tests.agent.nvml_mock.library import FakeGpu, FakeNode, build_library


def forget_library() -> None:
    """pynvml keeps the library, its functions and a count of initialisations for the whole process."""
    pynvml.nvmlLib = None
    pynvml._nvmlLib_refcount = 0
    pynvml._nvmlGetFunctionPointer_cache.clear()


class Rig:
    """A node of fake GPUs, a source that reads it, and the clock of that source."""

    def __init__(self, library: Path, node: FakeNode) -> None:
        self.library = library
        self.node = node
        self.now_s = 1000.0
        self.source = NvmlSource(library, lambda: self.now_s)

    def read(self, *gpus: FakeGpu) -> NodeReading:
        """Make the node have these GPUs, if any are given, and read it."""
        if gpus:
            self.node.gpus = list(gpus)
        self.node.write()
        return self.source.read()

    def device(self, *gpus: FakeGpu) -> DeviceReading:
        """The first GPU of the node, read without a problem."""
        reading = self.read(*gpus)
        assert reading.problem is None
        return reading.devices[0]


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def old_fake_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("old-nvml"), old_driver=True)


def _rigged(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    # Another file is another library to the loader, with nothing left of the last test.
    own = tmp_path / library.name
    shutil.copy(library, own)
    node = FakeNode(tmp_path)
    for name, value in node.environment.items():
        monkeypatch.setenv(name, value)
    forget_library()
    rig = Rig(own, node)
    yield rig
    rig.source.close()
    forget_library()


@pytest.fixture
def rig(fake_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    yield from _rigged(fake_library, tmp_path, monkeypatch)


@pytest.fixture
def old_rig(old_fake_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """With a library that lacks the functions of newer drivers."""
    yield from _rigged(old_fake_library, tmp_path, monkeypatch)
