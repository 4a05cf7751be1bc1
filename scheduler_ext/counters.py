"""Counters, declared in the class that counts; the metrics collect every declared one."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import ClassVar, TypeAlias
from weakref import WeakKeyDictionary

# The value of a single label, otherwise the values of all labels.
LabelValues: TypeAlias = str | tuple[str, ...]


class Counts(collections.Counter[LabelValues]):
    """The counts of one object. Safe to use from several threads."""

    _lock = Lock()

    def inc(self, *labels: str, by: int = 1) -> None:
        """Count one more; `by` 0 makes the counter visible before the first event."""
        with self._lock:
            self[labels[0] if len(labels) == 1 else labels] += by


class Counter:
    """A class attribute that reads as the `Counts` of each object. `name` is the metric's name without
    `_total`, `what` its help, `labels` the names of its labels. A scrape shows the sum over all objects
    of the process, and 0 for each of `zeros`, label values that were not counted yet."""

    declared: ClassVar[list[Counter]] = []

    def __init__(
        self, name: str, what: str, labels: Sequence[str] = (), zeros: Iterable[LabelValues] = ()
    ) -> None:
        self.name = name
        self.what = what
        self.labels = labels
        self._zeros = tuple(zeros) if labels else ((),)
        self._counts: WeakKeyDictionary[object, Counts] = WeakKeyDictionary()
        self.declared.append(self)

    def __get__(self, owner: object, _: type) -> Counts:
        if owner not in self._counts:
            self._counts.setdefault(owner, Counts())
        return self._counts[owner]

    def total(self) -> Counts:
        """The sum over all objects, by label values."""
        total = Counts(dict.fromkeys(self._zeros, 0))
        for counts in list(self._counts.values()):
            total.update(dict(counts))
        return total
