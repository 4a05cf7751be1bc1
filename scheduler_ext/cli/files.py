"""The files that commands read, and their configuration."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from scheduler_ext.cli.options import config_option_with
from scheduler_ext.core.errors import ConfigError, InventoryError, SchedulerExtError, SnapshotFileError
from scheduler_ext.wire.config import Configuration, load_config
from scheduler_ext.wire.files import MAX_CONFIGURATION_BYTES, read_file, read_stream

STDIN = "-"
_STDIN_READ = "scheduler_ext.stdin_read"


@contextmanager
def naming(source: object, unreadable: type[SchedulerExtError]) -> Iterator[None]:
    """Errors inside name their source; one of the file system becomes an `unreadable` error."""
    try:
        yield
    except OSError as error:
        raise unreadable(f"{source}: {error.strerror or error}") from None
    except (ConfigError, InventoryError, SnapshotFileError) as error:
        raise type(error)(f"{source}: {error}") from None


def read_config(path: Path | None) -> Configuration:
    """The configuration of a file, or the defaults. Raises ConfigError naming file and key."""
    if path is None:
        return Configuration()
    with naming(path, ConfigError):
        return load_config(read_file(path, MAX_CONFIGURATION_BYTES))


# The command gets it as a Configuration.
config_option = config_option_with(
    callback=lambda _ctx, _param, path: read_config(path),
    help="ExtenderConfiguration file (default: built-in defaults).",
)


def read_input(path: Path) -> bytes:
    """The bytes of a file, or of standard input. Raises OSError; click.UsageError for a second read of it."""
    if str(path) != STDIN:
        return read_file(path)
    meta = click.get_current_context().meta
    if meta.get(_STDIN_READ):
        raise click.UsageError("-: standard input can be read only once; give a file for one of the two")
    meta[_STDIN_READ] = True
    return read_stream(sys.stdin.buffer)
