"""Which runs the floors need, and how each is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import NamedTuple

from benchmarks.placement.floor_list import CHURN, MIG, MIXES, OURS, Condition, Floor
from benchmarks.placement.inputs import Inputs
from scheduler_ext.sim.experiment import Experiment
from scheduler_ext.sim.mig.geometry import read_geometry
from scheduler_ext.sim.mig.mig_churn_run import ARRIVALS, MigChurn, run_mig_churn
from scheduler_ext.sim.mig.mix import parse_mix
from scheduler_ext.sim.scheduler import Settings
from scheduler_ext.sim.simulation_report import Run
from scheduler_ext.sim.sweep import PROTOCOLS

_GEOMETRY = "A100-80GB"


class Cell(NamedTuple):
    """What one run is known by; of MIG the trace is a mix."""

    condition: Condition
    trace: str
    policy: str
    seed: int


Runs = Mapping[Cell, Run]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: the traces, the seeds, those of churn, whose runs are long, and how many pods of MIG."""

    inputs: Inputs
    seeds: Sequence[int]
    churn_seeds: Sequence[int]
    mig_arrivals: int = ARRIVALS

    def traces_of(self, floor: Floor) -> list[str]:
        """The traces that a floor is about; none where there are no such ones."""
        known = MIXES if floor.condition.protocol == MIG else tuple(self.inputs)
        return [name for name in known if any(fnmatchcase(name, each) for each in floor.traces)]

    def seeds_of(self, floor: Floor) -> Sequence[int]:
        """The seeds that a floor is the mean of."""
        return self.churn_seeds if floor.condition.protocol == CHURN else self.seeds

    def cells(self, floors: Iterable[Floor]) -> list[Cell]:
        """What has to be run for these floors, each once."""
        return list(dict.fromkeys(cell for floor in floors for cell in self._cells_of(floor)))

    def task(self, cell: Cell) -> Callable[[], Run]:
        """The run of a cell, as it is sent elsewhere: with what it needs and no more."""
        condition = cell.condition
        if condition.protocol == MIG:
            geometry = read_geometry(_GEOMETRY)
            churn = MigChurn(
                geometry=geometry,
                mix=parse_mix(cell.trace, geometry),
                trace=cell.trace,
                load=condition.load,
                arrivals=self.mig_arrivals,
            )
            return partial(run_mig_churn, churn, cell.policy, cell.seed)
        trace = self.inputs[cell.trace]
        experiment = Experiment(
            trace=cell.trace,
            nodes=trace.nodes,
            pods=trace.pods,
            policy=cell.policy,
            seed=cell.seed,
            load=condition.load,
            target=condition.target,
            settings=Settings(ties=condition.ties, points=condition.points),
            constrain_percent=condition.constrain_percent,
        )
        return partial(_run, condition.protocol, experiment)

    def _cells_of(self, floor: Floor) -> Iterator[Cell]:
        for trace in self.traces_of(floor):
            for seed in self.seeds_of(floor):
                yield Cell(floor.condition, trace, OURS, seed)
                if floor.figure is None:
                    for policy in floor.references:
                        yield Cell(floor.against or floor.condition, trace, policy, seed)


def _run(protocol: str, experiment: Experiment) -> Run:
    return PROTOCOLS[protocol](experiment).run
