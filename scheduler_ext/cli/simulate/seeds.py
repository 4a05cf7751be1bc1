"""Seeds as they are written on the command line."""

from __future__ import annotations

import re
from typing import Any

import click

_MOST = 10_000
_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


class Seeds(click.ParamType[tuple[int, ...]]):
    """Numbers and ranges of both ends, such as ``42-51`` or ``1,2,10-12``."""

    name = "seeds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        seeds: list[int] = []
        for part in str(value).split(","):
            match = _PART.fullmatch(part.strip())
            if match is None:
                self.fail(f"{part!r} is no seed; write numbers and ranges such as 42-51 or 42,43", param, ctx)
            first, last = int(match[1]), int(match[2] or match[1])
            if not first <= last < first + _MOST:
                self.fail(f"{part!r} is no range of 1 to {_MOST} seeds, smallest first", param, ctx)
            seeds += range(first, last + 1)
        if len(set(seeds)) < len(seeds):
            self.fail(f"{value!r} names a seed twice", param, ctx)
        return tuple(seeds)
