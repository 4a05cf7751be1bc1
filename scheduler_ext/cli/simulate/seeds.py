"""Seeds as people write them: 42, 42-51, 42,43,50-52."""

from __future__ import annotations

import re
from typing import Any

import click

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
# A slip of the keyboard is not meant to start a million simulations.
_MOST = 10_000


class Seeds(click.ParamType[tuple[int, ...]]):
    """A list of seeds and ranges of seeds, both ends included, in the order given, each once."""

    name = "seeds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        seeds: dict[int, None] = {}
        for item in str(value).split(","):
            match = _RANGE.fullmatch(item.strip())
            if match is None:
                self.fail(
                    f"{item[:40]!r} is no seed; write numbers of at most nine digits, like 42-51 or 42,43",
                    param,
                    ctx,
                )
            first, last = int(match[1]), int(match[2] or match[1])
            if last < first:
                self.fail(f"{item}: ends before it begins; write {last}-{first}", param, ctx)
            if last - first >= _MOST - len(seeds):
                self.fail(f"{item}: more than {_MOST} seeds", param, ctx)
            seeds |= dict.fromkeys(range(first, last + 1))
        return tuple(seeds)
