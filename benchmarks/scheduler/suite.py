"""All blocks: for each cluster size and round, every contender once, in an order that rotates."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.processes import running_listeners
from benchmarks.scheduler.block import Block, Running, block_of, run_block
from benchmarks.scheduler.contenders import Contender
from benchmarks.scheduler.nodes import create_nodes, write_idle_inventory
from benchmarks.scheduler.pods import create_pods, delete_pods
from tests.e2e.cluster.control_plane import ControlPlane

T = TypeVar("T")
# Measured on two shared cores: the control plane, a node with its inventory, a block without its pods, a pod,
# and the addition to that for each node.
_START_S = 10.0
_NODE_S = 0.006
_BLOCK_S = 2.8
_POD_S = 0.004
_POD_NODE_S = 3.7e-6


@dataclass(frozen=True, slots=True)
class Settings:
    """The measurement's settings: cluster sizes in ascending order, pods per block, rounds, contenders."""

    nodes: Sequence[int]
    pods: int
    warm_up: int
    rounds: int
    contenders: Sequence[Contender]
    seed: int
    # Whether all pods are equal except for their names.
    alike: bool = True
    # GPUs per pod.
    gpus: int = 1
    # kube-scheduler's back-off ends at 10 s, so a pod that is tried again is seen within this time.
    patience_s: float = 30.0
    note: Callable[[str], None] = print

    @property
    def queue(self) -> int:
        """Pods per block."""
        return self.warm_up + self.pods

    def expected_s(self) -> float:
        """The estimated duration."""
        blocks = self.rounds * len(self.contenders)
        one_each = sum(_BLOCK_S + self.queue * (_POD_S + nodes * _POD_NODE_S) for nodes in self.nodes)
        return _START_S + max(self.nodes) * _NODE_S + blocks * one_each


def measure(settings: Settings, plane: ControlPlane, directory: Path) -> list[Block]:
    """Run every block. Raises ChildError, ProcessError, ApiError or OSError if a part does not run."""
    blocks: list[Block] = []
    present = 0
    for nodes in settings.nodes:
        settings.note(f"{nodes} nodes: creating them, starting the extenders")
        create_nodes(plane.api, present, nodes, settings.seed)
        present = nodes
        with _extenders(settings, directory, nodes) as extenders:
            for number in range(settings.rounds):
                for contender in turned(settings.contenders, number):
                    block = _measure_block(settings, plane, directory, contender, extenders, nodes, number)
                    blocks.append(block)
                    settings.note(_told(block, settings.rounds))
    return blocks


def turned(contenders: Sequence[T], number: int) -> list[T]:
    """The order of round `number`: each starts a round before one starts again; odd rounds go backwards."""
    start = number % len(contenders)
    order = [*contenders[start:], *contenders[:start]]
    return order[:1] + order[:0:-1] if number % 2 else order


@contextlib.contextmanager
def _extenders(settings: Settings, directory: Path, nodes: int) -> Iterator[dict[str, Running]]:
    """Each contender's extender, all waiting at the same time: without requests they cost nothing."""
    inventory = directory / f"inventory-{nodes}.json"
    write_idle_inventory(inventory, nodes, settings.seed)
    with contextlib.ExitStack() as stack:
        running = {}
        for contender in settings.contenders:
            command = contender.command(inventory, directory)
            if command is None:
                running[contender.name] = Running(scheduler=contender.scheduler)
                continue
            url_of = stack.enter_context(running_listeners(command))
            health_url = url_of("health") if contender.is_ours else None
            running[contender.name] = Running(url_of("api"), health_url, scheduler=contender.scheduler)
        yield running


def _measure_block(
    settings: Settings,
    plane: ControlPlane,
    directory: Path,
    contender: Contender,
    extenders: dict[str, Running],
    nodes: int,
    number: int,
) -> Block:
    """One block on new pods, which are deleted at the end; all contenders of a round get the same pods."""
    create_pods(plane.api, settings.queue, settings.seed + number, settings.alike, settings.gpus)
    try:
        readings = run_block(
            plane,
            directory,
            contender.name,
            extenders[contender.name],
            settings.warm_up,
            settings.pods,
            settings.patience_s,
        )
    finally:
        delete_pods(plane.api)
    return block_of(contender.name, nodes, number, settings.queue, readings)


def _told(block: Block, rounds: int) -> str:
    """One block in one line, its errors below it."""
    mean_ms, pods_per_s = block.algorithm.mean_ms, block.pods_per_s
    told = (
        f"{block.nodes} nodes, round {block.round + 1} of {rounds}: {block.contender:<8} "
        f"algorithm {'-' if mean_ms is None else f'{mean_ms:.2f}'} ms, "
        f"{'-' if pods_per_s is None else f'{pods_per_s:.1f}'} pods/s"
    )
    return "\n  ".join((told, *block.messages))
