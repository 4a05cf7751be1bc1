"""A pod, as far as API calls and Events name it."""

from typing import Protocol


class PodReference(Protocol):
    """A pod by its names: waiting, of a gang, or bound."""

    @property
    def uid(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...
