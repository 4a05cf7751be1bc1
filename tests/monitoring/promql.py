"""Names in a PromQL expression, without a parser: Prometheus itself checks the syntax."""

from __future__ import annotations

import re

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_MATCHERS = re.compile(r"\{([^}]*)\}")
_LABEL_LIST = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_NUMBER = re.compile(r"\[[^\]]*\]|\b\d[\w.]*")
_IDENTIFIER = re.compile(r"[A-Za-z_:][\w:]*(?!\w)(?!\s*\()")
_WORDS = {"and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring"}


def metrics_in(expression: str) -> set[str]:
    """The names of all metrics."""
    bare = _LABEL_LIST.sub(" ", _MATCHERS.sub(" ", _STRING.sub('""', expression)))
    return set(_IDENTIFIER.findall(_NUMBER.sub(" ", bare))) - _WORDS


def labels_in(expression: str) -> set[str]:
    """The names of all labels, in matchers and in lists."""
    bare = _STRING.sub('""', expression)
    lists = [*_MATCHERS.findall(bare), *_LABEL_LIST.findall(_MATCHERS.sub(" ", bare))]
    return {name for text in lists for name in re.findall(r"[A-Za-z_]\w*", text)}
