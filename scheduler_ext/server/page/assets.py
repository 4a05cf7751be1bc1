"""The page's own files, read once; the page loads nothing from elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is served; ``tag`` is its ETag."""

    content: bytes
    content_type: str
    tag: str


def read_assets() -> dict[str, Asset]:
    """Every file of the page by its path; files of unknown types (licences, notes) are not served."""
    return {
        path: Asset(content, _TYPES[path[path.rfind(".") :]], hashlib.sha256(content).hexdigest()[:16])
        for path, content in _walk(files(__package__).joinpath("static"), "")
        if path[path.rfind(".") :] in _TYPES
    }


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry.read_bytes()
