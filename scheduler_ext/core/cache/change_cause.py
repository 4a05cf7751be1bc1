"""Why a node is not what it was."""

from __future__ import annotations

from enum import Flag, auto


class Cause(Flag):
    """What changed; kube-scheduler sees nodes and pods itself, the others it has to be told of."""

    NODE = auto()
    REPORT = auto()
    POD = auto()
    AGE = auto()
    PROMISE = auto()
