"""Files that never answer or never end are an error within seconds, wherever a command reads one."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from scheduler_ext.cli.files import read_config
from scheduler_ext.cluster.client.kubeconfig import Kubeconfig
from scheduler_ext.core.errors import ClusterError, ConfigError, InventoryError
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.sources import inventory_file as reading_module
from scheduler_ext.sources.clusterstate import load_objects
from scheduler_ext.sources.inventory_file import read_nodes_apart
from scheduler_ext.wire import files as files_module
from scheduler_ext.wire.files import FileLook, FileTooLargeError, UnansweredError, read_file, read_stream
from tests.kube_objects import gpu, gpu_node, inventory

NOT_OPENED = "not opened within 0.2 s; is it a pipe that nothing writes to"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that does not answer is given up at once; one that answers may take longer on a busy machine."""
    monkeypatch.setattr(files_module, "OPEN_S", 0.2)


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Path]:
    """A pipe that nothing writes to."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    yield path
    # Let the threads go that still wait for it.
    os.close(os.open(path, os.O_RDWR))


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, soon: None) -> Iterator[Path]:
    """A path on a mount that does not answer until the test ends."""
    answering = threading.Event()
    path = tmp_path / "dead" / "file"
    opened, looked = Path.open, Path.stat

    def hang(call: Callable[..., object]) -> Callable[..., object]:
        def hanging(self: Path, *arguments: object, **more: object) -> object:
            if self == path:
                assert answering.wait(60)
            return call(self, *arguments, **more)

        return hanging

    monkeypatch.setattr(Path, "open", hang(opened))
    monkeypatch.setattr(Path, "stat", hang(looked))
    yield path
    answering.set()


@pytest.mark.parametrize("which", ["pipe", "dead"])
def test_a_file_that_does_not_answer_is_not_waited_for(
    which: str, soon: None, request: pytest.FixtureRequest
) -> None:
    with pytest.raises(UnansweredError, match=NOT_OPENED):
        read_file(request.getfixturevalue(which))


def test_a_writer_that_falls_silent_is_not_waited_for(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "SILENCE_S", 0.4)
    writer = os.open(pipe, os.O_RDWR)
    os.write(writer, b"half")
    with pytest.raises(UnansweredError, match=r"nothing came from it for 0\.4 s"):
        read_file(pipe)
    os.close(writer)


def test_a_slow_writer_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece has the whole time that silence may last."""
    waited: list[float] = []

    class Timed(SimpleQueue[bytes | Exception | None]):
        def get(self, block: bool = True, timeout: float | None = None) -> bytes | Exception | None:
            waited.append(timeout or 0.0)
            return super().get(timeout=60)

    monkeypatch.setattr(files_module, "SimpleQueue", Timed)
    path = tmp_path / "file"
    path.write_bytes(b"x" * (3 << 20))
    assert len(read_file(path)) == 3 << 20
    assert waited == [files_module.OPEN_S] + [files_module.SILENCE_S] * 4


@pytest.mark.parametrize("size", [0, (1 << 20) + 1])
def test_a_file_comes_whole(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(size))
    assert read_file(path) == path.read_bytes()


def test_other_errors_stay_unchanged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "nowhere")
    with pytest.raises(IsADirectoryError):
        read_file(tmp_path)


def test_a_look_that_hangs_is_the_only_one(dead: Path) -> None:
    look = FileLook(dead)
    for _ in range(3):
        with pytest.raises(UnansweredError, match=r"no answer within 0\.2 s"):
            look.identity()
    assert [thread.name for thread in threading.enumerate()].count("look-at-file") == 1


def test_a_look_sees_another_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    look = FileLook(path)
    assert look.identity() is None
    path.write_bytes(b"1")
    first = look.identity()
    assert first == look.identity()
    path.write_bytes(b"12")
    assert look.identity() not in (None, first)


@pytest.mark.parametrize(
    ("read", "error", "mib"),
    [
        pytest.param(load_objects, InventoryError, "1,024", id="an inventory"),
        pytest.param(read_config, ConfigError, "16", id="a configuration"),
        pytest.param(
            lambda path: Kubeconfig((path,), None).contexts(), ClusterError, "16", id="a kubeconfig"
        ),
    ],
)
def test_the_source_that_cannot_be_read_is_named(
    pipe: Path, tmp_path: Path, soon: None, read: Callable[[Path], object], error: type[Exception], mib: str
) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(2**36)
    too_large = f"larger than {mib} MiB, the most that is read"
    for path, problem in ((pipe, NOT_OPENED), (large, too_large)):
        with pytest.raises(error) as found:
            read(path)
        assert str(path) in str(found.value)
        assert problem in str(found.value)
        assert "\n" not in str(found.value)


@pytest.mark.parametrize("where", ["/dev/zero", "file"])
def test_no_file_is_read_beyond_the_bound(where: str, tmp_path: Path) -> None:
    path = tmp_path / where
    if where == "file":
        path.write_bytes(b"x" * ((3 << 20) + 1))
    with pytest.raises(FileTooLargeError, match="larger than 3 MiB, the most that is read"):
        read_file(path, 3 << 20)


def test_standard_input_is_not_read_beyond_the_bound() -> None:
    assert read_stream(io.BytesIO(b"x" * 100), 100) == b"x" * 100
    with pytest.raises(FileTooLargeError):
        read_stream(io.BytesIO(b"x" * 101), 100)


def test_a_child_that_does_not_end_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_bytes(inventory(gpu_node("a", [gpu(0)])))
    monkeypatch.setattr(reading_module, "CHILD_S", 0.01)
    with pytest.raises(InventoryError, match=rf"{path}: not read within 0\.01 s"):
        read_nodes_apart(path, ResourceNames(), {})
