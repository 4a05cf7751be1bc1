"""How results are printed: JSON, YAML, or a table like kubectl's, in colour only on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
import yaml


def print_structured(value: dict[str, Any], form: str) -> None:
    """The value as JSON or YAML on stdout; what is not ASCII is escaped, as it may act on a terminal."""
    if form == "json":
        click.echo(json.dumps(value, indent=2))
    else:
        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=False), nl=False)


def print_names(kind: str, names: Iterable[str]) -> None:
    """Objects as kubectl names them, a line each: ``node/a``."""
    for name in names:
        click.echo(printable(f"{kind}/{name}"))


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Rows under a header, a line each however wide the terminal is, as kubectl prints them."""
    titles = [printable(title) for title in header]
    cells = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in (titles, *cells)) for i in range(len(titles))]
    click.echo(styled(_line(titles, widths), bold=True))
    for row in cells:
        click.echo(_line(row, widths))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The cells below their titles; spaces after the last one, and colours, take no width."""
    padded = [
        (styled(cell, fg=_COLOURS[cell]) if cell in _COLOURS else cell) + " " * (width - len(cell))
        for cell, width in zip(cells, widths, strict=True)
    ]
    return "   ".join(padded).rstrip()


def styled(text: str, **style: Any) -> str:
    """The text in the style that `click.style` takes, on a terminal that is to have colours."""
    return click.style(text, **style) if text and _in_colour() else text


def _in_colour() -> bool:
    """https://no-color.org, and what terminals without colours call themselves."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def printable(text: str) -> str:
    """Without control characters, which would act on a terminal: reports and manifests come from anybody."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


_COLOURS = {"fits": "green", "rejected": "red", "Unhealthy": "red", "Fresh": "green"}
