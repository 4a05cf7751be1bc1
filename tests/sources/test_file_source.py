"""The inventory file behind a running extender: changed, broken, gone, and restored."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_ext.core.errors import ImpossibleReportError, InventoryError
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.extender.extender import Extender
from scheduler_ext.sources import file_source as source_module
from scheduler_ext.sources.file_source import InventorySource
from scheduler_ext.sources.inventory_file import read_nodes, read_nodes_apart
from scheduler_ext.wire import files as files_module
from scheduler_ext.wire.config import Configuration
from tests.cluster.following import eventually
from tests.extender.preempting import filtered
from tests.kube_objects import gpu, gpu_node, inventory, pod


class Served:
    """An extender on a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.extender = Extender(Configuration())
        self.source = InventorySource(path, self.extender, ResourceNames())

    def fitting(self) -> list[str]:
        return filtered(self.extender, pod("p", {"nvidia.com/gpu": "1"}), ["a", "b"])[0]


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """It reads the file in this process."""
    monkeypatch.setattr(source_module, "read_nodes_apart", read_nodes)
    path = tmp_path / "inventory.yaml"
    path.write_bytes(inventory(gpu_node("a", [gpu(0)])))
    built = Served(path)
    yield built
    built.source.stop()


@pytest.fixture
def apart(served: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    """It reads the file in a child process, as an extender does."""
    monkeypatch.setattr(source_module, "read_nodes_apart", read_nodes_apart)
    return served


def test_a_changed_file_is_picked_up(apart: Served) -> None:
    assert apart.source.snapshot is None
    apart.source.load()
    assert apart.source.snapshot is apart.extender.snapshot
    assert apart.fitting() == ["a"]
    apart.path.write_bytes(inventory(gpu_node("a", [gpu(0)]), gpu_node("b", [gpu(0)])))
    apart.source.load()
    assert apart.fitting() == ["a", "b"]
    assert apart.source.problem is None


def test_a_broken_file_changes_nothing_and_is_named(served: Served) -> None:
    served.source.load()
    before = served.source.snapshot
    served.path.write_bytes(b"kind: [")
    with pytest.raises(InventoryError, match="neither YAML nor JSON") as refusal:
        served.source.load()
    assert str(refusal.value).startswith(f"{served.path}: ")
    assert served.source.snapshot is before
    assert served.fitting() == ["a"]


def test_a_sequence_that_goes_back_refuses_the_file_until_it_is_mended(served: Served) -> None:
    def write(sequence: int, boot: str = "one", *, nodes: str = "a") -> None:
        items = [gpu_node(name, [gpu(0)], sequence=sequence, bootID=boot) for name in nodes]
        served.path.write_bytes(inventory(*items))

    write(5)
    served.source.load()
    write(4, nodes="ab")
    with pytest.raises(ImpossibleReportError, match="went back from 5 to 4"):
        served.source.load()
    assert served.fitting() == ["a"]
    write(5, nodes="ab")
    served.source.load()
    assert served.fitting() == ["a", "b"]
    write(1, boot="two")
    served.source.load()
    assert served.fitting() == ["a"]


@pytest.mark.process
def test_a_running_source_follows_its_file(
    apart: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(source_module, "POLL_S", 0.02)
    apart.source.load()
    with caplog.at_level(logging.ERROR, logger=source_module.__name__):
        apart.source.start()
        checked_at = apart.source.checked_at
        eventually(lambda: apart.source.checked_at > checked_at)

        # As for a mounted ConfigMap: another file takes the name.
        def swap(text: bytes) -> None:
            new = apart.path.with_suffix(".new")
            new.write_bytes(text)
            new.replace(apart.path)

        swap(inventory(gpu_node("b", [gpu(0)])))
        eventually(lambda: apart.fitting() == ["b"])
        assert caplog.records == []

        swap(b"kind: [")
        eventually(lambda: apart.source.problem is not None)
        assert str(apart.path) in (apart.source.problem or "")
        assert apart.fitting() == ["b"]
        assert "the old one stays" in caplog.text

        swap(inventory(gpu_node("a", [gpu(0)]), gpu_node("b", [gpu(0)])))
        eventually(lambda: apart.fitting() == ["a", "b"])
        eventually(lambda: apart.source.problem is None)
        # Logged once, not at every look.
        assert [record.levelname for record in caplog.records] == ["ERROR"]


@pytest.mark.process
def test_a_reload_that_gets_no_answer_is_said_and_tried_again(
    apart: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By the child itself, which has ten seconds of its own."""
    monkeypatch.setattr(source_module, "POLL_S", 0.02)
    monkeypatch.setattr(source_module, "AGAIN_S", 0.1)
    monkeypatch.setattr(files_module, "OPEN_S", 30.0)
    apart.source.load()
    apart.source.start()
    with caplog.at_level(logging.ERROR, logger=source_module.__name__):
        # The file becomes a pipe without a writer.
        pipe = apart.path.with_suffix(".pipe")
        os.mkfifo(pipe)
        pipe.replace(apart.path)
        eventually(lambda: bool(caplog.records))
        (record,) = caplog.records
        assert record.getMessage() == (
            f"inventory not reloaded, the old one stays: {apart.path}: not opened within 10 s; is it a pipe "
            "that nothing writes to, or on a mount that does not answer?"
        )
        assert apart.fitting() == ["a"]
        assert apart.source.status().broken
        # The same pipe again, now with a writer.
        apart.path.write_bytes(inventory(gpu_node("b", [gpu(0)])))
        eventually(lambda: apart.fitting() == ["b"])
        eventually(lambda: apart.source.problem is None)
        assert len(caplog.records) == 1


@pytest.fixture
def answering(served: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Whether the mount of the file answers."""
    answering = threading.Event()
    stat = Path.stat

    def slow(self: Path, **more: bool) -> os.stat_result:
        if self == served.path:
            assert answering.wait(60)
        return stat(self, **more)

    monkeypatch.setattr(Path, "stat", slow)
    yield answering
    answering.set()


def test_a_mount_that_does_not_answer_is_said_until_it_does(
    served: Served,
    answering: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(source_module, "POLL_S", 0.02)
    answering.set()
    served.source.load()
    served.source.start()
    with caplog.at_level(logging.ERROR, logger=source_module.__name__):
        # Not earlier: until then a busy machine may be slow.
        monkeypatch.setattr(files_module, "OPEN_S", 0.05)
        answering.clear()
        eventually(lambda: served.source.status().broken)
        assert [problem.what for problem in served.source.status().problems] == ["inventory file"]
        (record,) = caplog.records
        assert f"{served.path}: no answer within 0.05 s" in record.getMessage()
        assert served.fitting() == ["a"]
        answering.set()
        eventually(lambda: not served.source.status().broken)
