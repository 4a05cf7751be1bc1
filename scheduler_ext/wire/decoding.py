"""What was wrong with a value, in words for whoever wrote it."""

from __future__ import annotations

import msgspec


def explained(error: msgspec.ValidationError) -> str:
    """msgspec's message with the field first, and YAML's favourite trap named."""
    problem, _, path = str(error).partition(" - at `$")
    field_path = path.rstrip("`").lstrip(".")
    hint = (
        ' (quote it in YAML: "8.0")'
        if "Expected `str" in problem and ("`float`" in problem or "`int`" in problem)
        else ""
    )
    return f"{field_path}: {problem}{hint}" if field_path else f"{problem}{hint}"
