"""A value computed on first use and kept on its object."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    lazy = cached_property
else:

    class lazy:  # noqa: N801 (a decorator)
        """functools.cached_property without its lock, which in Python 3.11 is one for all objects of a class,
        so that one pod's long computation would hold up others. Two threads may compute a value twice."""

        def __init__(self, compute: Callable[[Any], object]) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __get__(self, instance: object | None, owner: type) -> object:
            if instance is None:
                return self
            # Found in the instance before this descriptor from now on.
            value = instance.__dict__[self._compute.__name__] = self._compute(instance)
            return value
