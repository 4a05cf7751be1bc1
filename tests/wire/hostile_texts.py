"""Texts that describe more than memory holds, or that no parser of YAML 1.1 takes as they are meant."""

from __future__ import annotations

POD = "kind: Pod\nmetadata: {name: p}\nspec: {containers: []}\n"


def merge_bomb(levels: int, width: int) -> str:
    """Each mapping merges the one before this many times."""
    merged = [", ".join([f"*m{level}"] * width) for level in range(levels - 1)]
    lines = ["m0: &m0 {k: v}", *(f"m{i}: &m{i} {{<<: [{each}]}}" for i, each in enumerate(merged, 1))]
    return POD + "\n".join(lines) + "\n"


def alias_bomb(levels: int, width: int) -> str:
    """Each list contains the one before this many times."""
    repeated = [", ".join([f"*x{level}"] * width) for level in range(levels - 1)]
    lines = ["x0: &x0 [a, a]", *(f"x{i}: &x{i} [{each}]" for i, each in enumerate(repeated, 1))]
    return POD + "\n".join(lines) + "\n"


def string_bomb(length: int, times: int) -> str:
    """A long text that this many aliases repeat."""
    return POD + f'a: &a "{"x" * length}"\nb: [{", ".join(["*a"] * times)}]\n'


BOMBS = {
    "one long text, repeated": string_bomb(128_000, 31_000),
    "a long text as a key": POD + f'a: &a "{"x" * 128_000}"\nb: [' + "{*a : 1}, " * 12_000 + "]\n",
    "lists of lists": alias_bomb(12, 10),
    "merge keys, 428 bytes": merge_bomb(9, 6),
    "merge keys, 520 bytes": merge_bomb(11, 6),
    "merge keys of many keys": POD
    + "a: &a {"
    + ", ".join(f"k{i}: v" for i in range(9000))
    + "}\nb: ["
    + "{<<: *a}, " * 12_000
    + "]\n",
}
# A tag or a scalar, and whether a text with it is read.
SCALARS = {
    "!!bool x": False,
    "!!int x": False,
    "!!int 1.5": False,
    "!!float x": False,
    "!!null x": False,
    "!!str 7": True,
    "!!timestamp 2026-01-01": False,
    "!!binary '*'": False,
    "!!binary aGk=": False,
    "!!set {a}": False,
    "!!omap [a: 1]": False,
    "!!map [a]": False,
    "!!seq {a: b}": False,
    "!!python/name:os.system": False,
    "!mine a": False,
    "!<tag:example.com,2000:x> a": False,
    "1" + ":10" * 80_000: True,
    "{on: a}": False,
    "{? : a}": False,
    "{[a]: b}": False,
    "{{a: b}: c}": False,
    '"\\ud800"': False,
    '"\\udc00\\ud800"': False,
    '"\\0"': True,
    "a\0b": False,
    "a\x1bb": False,
    "9" * 5000: False,
    "0x" + "f" * 5000: False,
    "-" + "9" * 100_000: False,
    "18446744073709551615": True,
    "18446744073709551616": False,
    "1." + "9" * 100_000: False,
    "1.0e+999": False,
    ".nan": False,
    ".inf": False,
    "{<<: [1]}": False,
    "*nowhere": False,
    "&a [*a]": False,
    "&a {<<: *a}": False,
    "[" * 5_000: False,
    "{a: " * 50_000: False,
}
