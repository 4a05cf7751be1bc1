"""How results are printed: JSON, YAML, or a table like kubectl's, in colour only on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
import yaml


def print_structured(value: dict[str, Any], form: str) -> None:
    """The value as JSON or YAML on stdout."""
    if form == "json":
        click.echo(json.dumps(value, indent=2))
    else:
        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)


def print_names(kind: str, names: Iterable[str]) -> None:
    """Objects as kubectl names them, a line each: ``node/a``."""
    for name in names:
        click.echo(printable(f"{kind}/{name}"))


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Rows under a header: through rich on a terminal that has it, else aligned plain text."""
    cells = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    if sys.stdout.isatty() and _print_rich(header, cells):
        return
    widths = [max(len(row[i]) for row in (list(header), *cells)) for i in range(len(header))]
    for row in (list(header), *cells):
        click.echo("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def printable(text: str) -> str:
    """Without control characters, which would act on a terminal: reports and manifests come from anybody."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _print_rich(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in header:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    Console().print(table)
    return True


_STYLES = {"fits": "green", "rejected": "red", "Unhealthy": "red", "Fresh": "green"}
