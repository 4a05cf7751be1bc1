"""The lines of a trace's CSV file, with errors that name file, line and column."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.core.node.node_labels import MAX_VALUE
from scheduler_ext.wire.files import MAX_TRACE_BYTES, read_file

# More than any machine has, and small enough for sums in 64 bits.
_LARGEST = 10**12
MOST_GPUS = 64
# Characters of a value in an error: with a broken quote, a cell may hold half a file.
_SHOWN_CHARACTERS = 80
# Python converts no more than 4,300 digits.
_AMOUNT = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,4000}")


class Row:
    """One line of a file; its errors name file, line and column."""

    def __init__(self, path: Path, line: int, values: dict[str, str]) -> None:
        self._path, self._line, self._values = path, line, values

    def text(self, column: str) -> str:
        """The cell without spaces around it."""
        return (self._values.get(column) or "").strip()

    def number(self, column: str, most: int = _LARGEST) -> int:
        """The cell as a whole number of 0 to `most`; raises SimulationError for any other text."""
        text = self.text(column)
        # `int` alone would take 1_000 and the digits of any script.
        if not _WHOLE_NUMBER.fullmatch(text):
            raise self.error(column, f"{shown(text)!r} is no whole number; write one of 0 to {most}")
        value = int(text)
        if not 0 <= value <= most:
            raise self.error(column, f"{shown(str(value))} is not within 0 to {most}")
        return value

    def amount(self, column: str) -> float:
        """The cell as a number above 0; 0 for an empty or missing cell. Raises SimulationError for any other
        text."""
        text = self.text(column)
        if not text:
            return 0.0
        if not _AMOUNT.fullmatch(text) or not 0 < float(text) <= MAX_VALUE:
            problem = f"{shown(text)!r} is no number above 0 and at most {MAX_VALUE:.0f}"
            raise self.error(column, f"{problem}; write one such as 2.5, or leave the cell empty")
        return float(text)

    def error(self, column: str, problem: str) -> SimulationError:
        """The error of this cell."""
        return SimulationError(f"{self._path}, line {self._line}, {column}: {problem}")


def csv_rows(path: Path, needed: Sequence[str]) -> Iterator[Row]:
    """The lines of a file after the first, which has the needed columns. Raises SimulationError naming file,
    line and column."""
    try:
        # `open` and `read` alone would wait for a pipe, and read a device without an end.
        with io.StringIO(read_file(path, MAX_TRACE_BYTES).decode("utf-8-sig"), newline="") as file:
            reader = csv.DictReader(file, strict=True)
            # Some traces have spaces after the commas.
            columns = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = columns
            for column in needed:
                if column not in columns:
                    raise SimulationError(
                        f"{path}, line 1: no column {column}; the first line names {', '.join(needed)}"
                    )
            # The reader would silently take the last of two equal columns.
            for column, count in Counter(filter(None, columns)).items():
                if count > 1:
                    raise SimulationError(
                        f"{path}, line 1, {shown(column)}: is named twice; keep one of the two"
                    )
            row = None
            for values in reader:
                row = Row(path, reader.line_num, values)
                if None in values:
                    # The cells after the last column.
                    cell = shown(str(values[None][0]))
                    raise row.error(f"column {len(columns) + 1}", f"{cell!r} has no name in the first line")
                yield row
            if row is None:
                raise SimulationError(f"{path}: has no rows; write one per line after the column names")
    except OSError as error:
        raise SimulationError(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise SimulationError(f"{path}: is no CSV in UTF-8: {error}") from None


def shown(text: str) -> str:
    """The beginning of a text from outside."""
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
