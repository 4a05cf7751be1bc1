"""YAML to plain values, bounded before anything is built. A text of a few hundred bytes can describe more
than any memory holds: an alias repeats a value of any size, and a merge key (`<<`) repeats the keys of
other mappings. Therefore values are built from the events of the parser, and the size of a value is known
before an alias repeats it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from scheduler_ext.core.errors import DocumentError
from scheduler_ext.wire.yaml_scalars import ScalarError, is_tag_of, key_text, refused_tag, scalar_value, shown

# The C parser, ten times as fast, if PyYAML was built with it.
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# A value takes at least this much memory, however short its text is.
_VALUE_BYTES: Final = 32
_MERGE_KEY: Final = object()


@dataclass(frozen=True, slots=True)
class YamlLimits:
    """Limits of a YAML text. `depth` is the number of nesting levels; `values` the number of scalars,
    lists and mappings that the text itself may have, None for any number; `repeated_bytes` the memory that
    aliases and merge keys may add, None if both are refused. `unique_keys`: a key twice in one mapping is
    refused; otherwise the last one counts, as for Kubernetes."""

    depth: int
    values: int | None
    repeated_bytes: int | None
    unique_keys: bool = False


# Kubernetes objects have some 20 levels; much deeper ones could overflow the stack of a later reader. The
# anchors of a file with 5,000 nodes of eight GPUs, each with 25 fields, repeat 84 MiB.
FILE: Final = YamlLimits(depth=500, values=None, repeated_bytes=128 * 2**20)
# A configuration has fewer than a hundred keys. Of a section that is there twice, one would be lost.
CONFIGURATION: Final = YamlLimits(depth=100, values=20_000, repeated_bytes=2**20, unique_keys=True)
# One manifest from the network. The largest pods have a few thousand values.
POSTED: Final = YamlLimits(depth=100, values=20_000, repeated_bytes=None)


def yaml_values(text: bytes, limits: YamlLimits) -> Iterator[Any]:
    """The documents of a UTF-8 text as plain values; an alias is the same value in several places. Raises
    DocumentError, possibly after some documents."""
    try:
        loader = _LOADER(text)
        try:
            yield from _Builder(loader.get_event, limits).documents()
        finally:
            loader.dispose()
    # The last two are raised by the Python parser for an escape that is no character.
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # The parser knows no name of its input; the caller adds the file's.
        fault = " ".join(str(error).split()).replace(' in "<byte string>",', " at")
        raise DocumentError(f"neither YAML nor JSON: {fault}") from None


@dataclass(slots=True)
class _Anchored:
    """A value that aliases may repeat: its memory with all aliases expanded, and its levels."""

    value: Any
    size_bytes: int
    height: int


@dataclass(slots=True)
class _Open:
    """A list or a mapping whose end is still to come."""

    value: list[Any] | dict[str, Any]
    anchor: str | None
    size_before: int
    height: int = 1
    # Of a mapping: the key whose value comes next, and the mappings that merge keys name.
    key: object = None
    merged: list[dict[str, Any]] = field(default_factory=list)

    @property
    def awaits_key(self) -> bool:
        return self.key is None and type(self.value) is dict

    def finished(self) -> list[Any] | dict[str, Any]:
        """The value: own keys take precedence over merge keys, and among these the first mapping's."""
        if self.merged and isinstance(self.value, dict):
            own = self.value
            self.value = {}
            for mapping in (*reversed(self.merged), own):
                self.value.update(mapping)
        return self.value


class _Builder:
    """Builds values from the events of a parser. Raises DocumentError; the parser raises yaml.YAMLError."""

    def __init__(self, next_event: Callable[[], Any], limits: YamlLimits) -> None:
        self._next_event = next_event
        self._limits = limits
        # None for a value whose end is still to come.
        self._anchors: dict[str, _Anchored | None] = {}
        self._stack: list[_Open] = []
        self._root: Any = None
        self._values = 0
        # The memory of everything so far with all aliases expanded, and the part of it that they repeat.
        self._size_bytes = 0
        self._repeated_bytes = 0
        self._handlers: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: self._start,
            yaml.SequenceStartEvent: self._start,
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
            yaml.AliasEvent: self._alias,
        }

    def documents(self) -> Iterator[Any]:
        """Each document as soon as it is complete."""
        while (event := self._next_event()) is not None:
            handler = self._handlers.get(type(event))
            if handler is not None:
                handler(event)
            elif type(event) is yaml.DocumentEndEvent:
                self._anchors.clear()
                yield self._root

    def _scalar(self, event: Any) -> None:
        text = event.value
        size_bytes = _VALUE_BYTES + len(text)
        self._count(event, size_bytes)
        plain = event.implicit[0] and event.tag is None
        value: object
        try:
            if not (self._stack and self._stack[-1].awaits_key):
                value = scalar_value(event.tag, text, plain)
            elif plain and text == "<<":
                if self._limits.repeated_bytes is None:
                    raise _problem(event, "merge key <<: not read here; write the keys out")
                value = _MERGE_KEY
            else:
                value = key_text(event.tag, text, plain)
        except ScalarError as error:
            raise _problem(event, str(error)) from None
        if event.anchor is not None and value is not _MERGE_KEY:
            self._anchors[event.anchor] = _Anchored(value, size_bytes, 0)
        self._put(event, value, 0)

    def _start(self, event: Any) -> None:
        self._check_depth(event, len(self._stack) + 1)
        is_map = type(event) is yaml.MappingStartEvent
        if not is_tag_of(event.tag, "map" if is_map else "seq"):
            raise _problem(event, refused_tag(event.tag))
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._stack.append(_Open({} if is_map else [], event.anchor, self._size_bytes))
        self._count(event, _VALUE_BYTES)

    def _end(self, event: Any) -> None:
        ended = self._stack.pop()
        value = ended.finished()
        if ended.anchor is not None:
            size_bytes = self._size_bytes - ended.size_before
            self._anchors[ended.anchor] = _Anchored(value, size_bytes, ended.height)
        self._put(event, value, ended.height)

    def _alias(self, event: Any) -> None:
        name = shown(event.anchor)
        limit = self._limits.repeated_bytes
        if limit is None:
            raise _problem(event, f"alias {name}: not read here; write its value out")
        if event.anchor not in self._anchors:
            raise _problem(event, f"alias {name}: no anchor of this name stands before it")
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise _problem(event, f"alias {name}: is a part of the value that it repeats")
        self._repeated_bytes += anchored.size_bytes
        if self._repeated_bytes > limit:
            raise _problem(event, f"aliases unfold to more than {limit >> 20} MiB; write the values out")
        self._check_depth(event, len(self._stack) + anchored.height)
        self._size_bytes += anchored.size_bytes
        self._put(event, anchored.value, anchored.height)

    def _put(self, event: Any, value: Any, height: int) -> None:
        if not self._stack:
            self._root = value
            return
        into = self._stack[-1]
        into.height = max(into.height, height + 1)
        if type(into.value) is list:
            into.value.append(value)
        elif into.key is None:
            if type(value) is not str and value is not _MERGE_KEY:
                raise _problem(event, "a key that is no text; write a text")
            if self._limits.unique_keys and value in into.value:
                raise _problem(event, f"key {shown(str(value))} is there twice; keep one")
            into.key = value
        elif into.key is _MERGE_KEY:
            mappings = value if type(value) is list else [value]
            if not all(type(mapping) is dict for mapping in mappings):
                raise _problem(event, "merge key <<: takes a mapping, or a list of mappings")
            # The aliases that led here have already paid for the copies of their keys.
            into.merged.extend(mappings)
            into.key = None
        else:
            into.value[into.key] = value  # type: ignore[call-overload,index]  # a mapping, by its keys
            into.key = None

    def _count(self, event: Any, size_bytes: int) -> None:
        self._values += 1
        self._size_bytes += size_bytes
        if self._limits.values is not None and self._values > self._limits.values:
            raise _problem(event, f"more than {self._limits.values} values; send less")

    def _check_depth(self, event: Any, levels: int) -> None:
        if levels > self._limits.depth:
            raise _problem(event, f"nested deeper than {self._limits.depth} levels")


def _problem(event: Any, text: str) -> DocumentError:
    return DocumentError(f"YAML, line {event.start_mark.line + 1}: {text}")
