"""A policy of a user in a run: every mistake of its code becomes an error of one line with file and line."""

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from copy import copy
from traceback import walk_tb
from types import CodeType
from typing import Any

import numpy as np

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.core.node.columns import Floats
from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.sim.placement_policy import Evaluation, Policy, Target
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import NodesView, World

# Characters of an exception's text: it may show whole arrays.
_SHOWN_CHARACTERS = 300


class Guarded(Policy):
    """Runs a policy and checks its results. The policy cannot change the nodes that it sees."""

    def __init__(self, policy: type[Policy], name: str, target: Target) -> None:
        self.name = name
        self.published_ties, self.fixed_ties = policy.published_ties, policy.fixed_ties
        self._file = _file_of(policy)
        self._place = _place_of(policy.evaluate, self._file)
        # Reported for arguments that do not match, where no line of the file runs.
        with reported(self._file, _place_of(policy.__init__, self._file)):
            self._policy = policy(target)

    def retarget(self, workload: Workload) -> None:
        """Expect another workload."""
        with reported(self._file):
            self._policy.retarget(workload)

    def phase(self, world: World) -> int:
        """As the policy has it."""
        with reported(self._file):
            return self._policy.phase(world)

    def resolution(self, kind: PodKind, world: World) -> float:
        """As the policy has it."""
        with reported(self._file):
            return self._policy.resolution(kind, world)

    def of_cluster(self, kind: PodKind, world: World) -> Floats | None:
        """As the policy has it."""
        with reported(self._file):
            return self._policy.of_cluster(kind, world)

    def evaluate(self, kind: PodKind, nodes: NodesView) -> Evaluation:
        """Score the nodes."""
        with reported(self._file, self._place):
            score, slot = _arrays(self._policy.evaluate(kind, _protected(nodes)))
        problem = _problem(kind, nodes, score, slot)
        if problem is not None:
            raise SimulationError(f"{self._place}: evaluate: {problem}")
        return Evaluation(score.astype(np.float64), slot.astype(np.int32))


@contextmanager
def reported(file: str, place: str = "") -> Iterator[None]:
    """An exception inside becomes a SimulationError with the last line of this file that led to it; without
    such a line, with `place`. What the code prints goes to stderr, because reports are on stdout."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as error:
        lines = [line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
        if isinstance(error, SyntaxError) and error.filename == file and error.lineno is not None:
            lines.append(error.lineno)
        where = f"{file}, line {lines[-1]}" if lines else place or file
        raise SimulationError(f"{where}: {described(error)}") from None


def described(error: BaseException) -> str:
    """The kind of an exception and its text, in one line."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    text = " ".join(text.split())
    if len(text) > _SHOWN_CHARACTERS:
        text = text[:_SHOWN_CHARACTERS] + "..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _file_of(policy: type[Policy]) -> str:
    """The file that defines a class, as its code names it."""
    file = getattr(sys.modules.get(policy.__module__), "__file__", None)
    return file if isinstance(file, str) else policy.__module__


def _place_of(function: Any, file: str) -> str:
    """The first line of a function of this file; of any other function, the file alone."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if not isinstance(code, CodeType) or code.co_filename != file:
        return file
    return f"{file}, line {code.co_firstlineno}"


def _protected(nodes: NodesView) -> NodesView:
    """The nodes without a way to write into them: a view of all nodes has the arrays of the world itself."""
    same = copy(nodes)
    for name in ("cpu_free", "memory_free", "room_milli", "gpus", "model", "spot"):
        array = getattr(nodes, name).view()
        array.flags.writeable = False
        setattr(same, name, array)
    return same


def _arrays(result: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"evaluate returned {type(result).__name__}; return Evaluation(score, slot)")
    score, slot = result
    return np.asarray(score), np.asarray(slot)


def _problem(
    kind: PodKind, nodes: NodesView, score: np.ndarray[Any, Any], slot: np.ndarray[Any, Any]
) -> str | None:
    """What is wrong with a result, if anything is."""
    for what, values, kinds, needed in (
        ("score", score, "fiu", "numbers"),
        ("slot", slot, "iu", "whole numbers"),
    ):
        if values.shape != (len(nodes),):
            return f"{what} has the shape {values.shape}; give one value for each of the {len(nodes)} nodes"
        if values.dtype.kind not in kinds:
            return f"{what} has the type {values.dtype}; give {needed}"
    wrong = np.flatnonzero(np.isnan(score) | np.isposinf(score))
    if len(wrong):
        return (
            f"score of {_node(nodes, wrong[0])} is {score[wrong[0]]}; give a number, or -inf to refuse a node"
        )
    if not kind.is_share:
        return None
    depth = len(nodes.room_milli)
    outside = (slot < 0) | (slot >= depth)
    room = nodes.room_milli[np.where(outside, 0, slot), np.arange(len(nodes))]
    wrong = np.flatnonzero((score > -np.inf) & (outside | (room < kind.gpu_milli)))
    if not len(wrong):
        return None
    first = wrong[0]
    has = "is no GPU" if outside[first] else f"has {room[first]} thousandths of a GPU left"
    return f"slot {slot[first]} of {_node(nodes, first)} {has}, and the pod asks {kind.gpu_milli}"


def _node(nodes: NodesView, index: int) -> str:
    """The name of a node of the view."""
    return f"node {nodes.world.cluster.names[index if nodes.only is None else nodes.only[index]]}"
