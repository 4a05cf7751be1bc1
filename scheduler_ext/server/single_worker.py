"""Why a second worker process is refused, and every place one can be asked for."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

_FIX = (
    "the inventory and its holdings live in the memory of one process, and two workers would hand out the "
    "same GPU twice; remove the setting, or set it to 1"
)


def refuse_workers(environ: Mapping[str, str], workers_flag: int | None) -> str | None:
    """The message to refuse to start with when anything but one worker is asked for, else None.

    Looks at the command line flag (None: not given), GUNICORN_CMD_ARGS and WEB_CONCURRENCY; a value that
    cannot be read is refused too, because nobody can tell what it was meant to be.
    """
    if workers_flag is not None and workers_flag != 1:
        return f"--workers {workers_flag}: {_FIX}"
    arguments = environ.get("GUNICORN_CMD_ARGS", "")
    try:
        for value in _workers_arguments(shlex.split(arguments)):
            if not _is_one(value):
                return f"GUNICORN_CMD_ARGS asks for {value!r} workers: {_FIX}"
    except ValueError as error:
        return f"GUNICORN_CMD_ARGS cannot be read ({error}): correct its quoting or unset it"
    concurrency = environ.get("WEB_CONCURRENCY", "")
    if concurrency and not _is_one(concurrency):
        return f"WEB_CONCURRENCY asks for {concurrency!r} workers: {_FIX}"
    return None


def _workers_arguments(arguments: list[str]) -> Iterator[str]:
    """The values given to -w and --workers, in each form argparse accepts; "" where one is missing."""
    rest = iter(arguments)
    for argument in rest:
        if argument in ("-w", "--workers"):
            yield next(rest, "")
        elif argument.startswith("--workers="):
            yield argument.removeprefix("--workers=")
        elif argument.startswith("-w"):
            yield argument.removeprefix("-w").removeprefix("=")


def _is_one(value: str) -> bool:
    try:
        return int(value) == 1
    except ValueError:
        return False
