"""The page's colours are distinguishable, in both schemes (WCAG 2.2, 1.4.3 and 1.4.11)."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

STYLE = files("scheduler_ext.features.page").joinpath("static", "page.css").read_text()
LIGHT, DARK = (
    dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", block))
    for block in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
)
TEXT, GRAPHICS = 4.5, 3.0
PAIRS = [
    *(("text", ground, TEXT) for ground in ("page", "surface", "raised", "bad-soft")),
    *(("muted", ground, TEXT) for ground in ("page", "surface", "raised")),
    *((name, "surface", TEXT) for name in ("bad", "warn", "good", "accent")),
    ("warn", "warn-soft", TEXT),
    ("surface", "bad", TEXT),
    *(
        (name, "surface", GRAPHICS)
        for name in ("requested", "used", "unaccounted", "beyond", "border-strong")
    ),
    *((name, "surface", GRAPHICS) for name in ("focus", "waiting", "fragmentation", "ramp-4")),
    ("used", "requested", GRAPHICS),
    ("used", "free", GRAPHICS),
]


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [pytest.param(LIGHT, id="light"), pytest.param(DARK, id="dark")])
def test_texts_and_bars_can_be_seen(scheme: dict[str, str]) -> None:
    assert [pair for pair in PAIRS if contrast(scheme, *pair[:2]) < pair[2]] == []


def contrast(scheme: dict[str, str], front: str, ground: str) -> float:
    lighter, darker = sorted((luminance(scheme[front]), luminance(scheme[ground])), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)
