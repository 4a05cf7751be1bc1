"""Results as JSON, YAML, or a table like kubectl's, with colours only on a terminal."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any, Final

import click
import yaml

from scheduler_ext.printable import printable

# The width if the output is no terminal.
COLUMNS: Final = 120
_NARROWEST: Final = 4
_GAPS: Final = ("   ", "  ", " ")
_HYPHENATED: Final = re.compile(r"[^ ,-]*[ ,-]+|[^ ,-]+")
_BREAKS: Final = (
    re.compile(r"[^,]*,+ *|[^,]+"),
    re.compile(r"[^ ]* +|[^ ]+"),
    _HYPHENATED,
    re.compile(r".", re.DOTALL),
)

Columns = dict[str, str | Callable[[Any], object]]
"""Titles of a table; each with the key of its values in an item, or with a function of the item."""


def print_output(
    output: str, value: dict[str, Any], kind: str, names: Iterable[str], table: Callable[..., None]
) -> None:
    """A value in the form of `-o`: structured, as `names` of objects, or by `table(value, wide=)`."""
    if output in ("json", "yaml"):
        print_structured(value, output)
    elif output == "name":
        # As kubectl names objects, a line each: node/a.
        for name in names:
            show(f"{kind}/{name}")
    else:
        table(value, wide=output == "wide")


def print_structured(value: dict[str, Any], form: str) -> None:
    """The value as JSON or YAML on stdout; other characters than ASCII are escaped, to protect terminals."""
    if form == "json":
        click.echo(json.dumps(value, indent=2))
    else:
        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=False), nl=False)


def print_notes(notes: Iterable[str]) -> None:
    """Notes for users, a line each."""
    for note in notes:
        show(f"Note: {note}")


def print_items(columns: Columns, items: Sequence[Any], *, wide: bool = False) -> None:
    """A table with a row for each item."""
    rows = [
        [item[value] if isinstance(value, str) else value(item) for value in columns.values()]
        for item in items
    ]
    print_table(tuple(columns), rows, wide=wide)


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]], *, wide: bool = False) -> None:
    """Rows under a header, with cells wrapped to the width of the terminal, or to 120 columns. `wide` keeps
    each row on one line of any length."""
    titles = [printable(title) for title in header]
    cells = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    columns = (sys.stdout.isatty() and os.get_terminal_size(sys.stdout.fileno()).columns) or COLUMNS
    widths, gap = _layout([titles, *cells], None if wide else columns)
    _print_row(titles, widths, gap, bold=True)
    for row in cells:
        _print_row(row, widths, gap)


def _layout(rows: Sequence[Sequence[str]], columns: int | None) -> tuple[list[int], str]:
    """The width of each column and the gap between columns, for lines of at most so many characters."""
    table = list(zip(*rows, strict=True))
    natural = [max(map(len, column)) for column in table]
    if columns is None:
        return natural, _GAPS[0]
    for gap in _GAPS[:2]:
        if sum(natural) + len(gap) * (len(natural) - 1) <= columns:
            return natural, gap
    parts = [[part for cell in column for part in _HYPHENATED.findall(cell)] for column in table]
    unbroken = [max((len(part.rstrip()) for part in column), default=0) for column in parts]
    # Names stay whole as long as other columns can shrink.
    for least in ([natural[0], *unbroken[1:]], unbroken, [min(width, _NARROWEST) for width in natural]):
        for gap in _GAPS[1:]:
            room = columns - len(gap) * (len(natural) - 1)
            if sum(least) <= room:
                return _narrowed(natural, least, room), gap
    return least, gap


def _narrowed(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths with a sum of `room` if `least` allows it: the widest columns shrink to a common width."""
    cap = max(natural)
    while cap > 1 and sum(_capped(natural, least, cap)) > room:
        cap -= 1
    widths = _capped(natural, least, cap)
    for i, width in enumerate(natural):
        if sum(widths) < room and widths[i] < width:
            widths[i] += 1
    return widths


def _capped(natural: Sequence[int], least: Sequence[int], cap: int) -> list[int]:
    return [max(floor, min(width, cap)) for width, floor in zip(natural, least, strict=True)]


def _print_row(cells: Sequence[str], widths: Sequence[int], gap: str, **style: Any) -> None:
    """The cells below their titles, on as many lines as the longest cell needs; colours take no width."""
    wrapped = [_wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
    styles = [{"fg": _COLOURS[cell]} if cell in _COLOURS else style for cell in cells]
    for line in zip_longest(*wrapped, fillvalue=""):
        padded = [
            styled(part, **how) + " " * (width - len(part))
            for part, width, how in zip(line, widths, styles, strict=True)
        ]
        click.echo(gap.join(padded).rstrip())


def _wrapped(text: str, width: int) -> list[str]:
    """The text in lines of this width: broken after commas, then spaces, then hyphens, then anywhere."""
    lines = [""]

    def place(part: str, breaks: Sequence[re.Pattern[str]]) -> None:
        if len(lines[-1]) + len(part.rstrip()) <= width:
            lines[-1] += part
        elif len(part.rstrip()) <= width:
            lines.append(part)
        else:
            for piece in breaks[0].findall(part):
                place(piece, breaks[1:])

    place(text, _BREAKS)
    return [line.rstrip() for line in lines if line] or [""]


def styled(text: str, **style: Any) -> str:
    """The text in a style of `click.style`, if the terminal shows colours."""
    # https://no-color.org
    colourless = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty()
    return text if colourless or not (text and style) else click.style(text, **style)


def show(text: str, *, err: bool = False) -> None:
    """Print a text that names objects, without control characters."""
    click.echo(printable(text), err=err)


_COLOURS = {"fits": "green", "rejected": "red", "Unhealthy": "red", "Fresh": "green"}
