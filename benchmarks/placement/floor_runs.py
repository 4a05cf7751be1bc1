"""The runs that the floors need, and how each is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import NamedTuple

from benchmarks.placement.floor_list import CHURN, FAMILY, MIG, MIXES, OURS, Condition, Floor
from benchmarks.placement.inputs import Inputs, Trace, of_family
from scheduler_ext.sim.experiment import Experiment
from scheduler_ext.sim.generator import FAMILIES
from scheduler_ext.sim.mig.mig_churn_run import ARRIVALS, MigChurn, run_mig_churn
from scheduler_ext.sim.mig.mig_inputs import parse_mix, read_geometry
from scheduler_ext.sim.protocols import PROTOCOLS
from scheduler_ext.sim.scheduler import Settings
from scheduler_ext.sim.simulation_report import Run

_GEOMETRY = "A100-80GB"


class Cell(NamedTuple):
    """The identity of one run; for MIG the trace is a mix."""

    condition: Condition
    trace: str
    policy: str
    seed: int


Runs = Mapping[Cell, Run]


@dataclass(frozen=True, slots=True)
class Plan:
    """The inputs of the runs: traces, seeds, seeds for churn (its runs are long), and the number of MIG
    pods.
    """

    inputs: Inputs
    seeds: Sequence[int]
    churn_seeds: Sequence[int]
    mig_arrivals: int = ARRIVALS

    def traces_of(self, floor: Floor) -> list[str]:
        """The traces that a floor covers; empty if there are none."""
        known: Iterable[str] = self.inputs
        if floor.group == FAMILY or floor.condition.protocol == MIG:
            known = FAMILIES if floor.group == FAMILY else MIXES
        return [name for name in known if any(fnmatchcase(name, each) for each in floor.traces)]

    def seeds_of(self, floor: Floor) -> Sequence[int]:
        """The seeds whose mean a floor uses. In churn of generated clusters, which differ by the seed, few
        would say little."""
        few = floor.condition.protocol == CHURN and floor.group != FAMILY
        return self.churn_seeds if few else self.seeds

    def cells(self, floors: Iterable[Floor]) -> list[Cell]:
        """The runs that these floors need, each once."""
        return list(dict.fromkeys(cell for floor in floors for cell in self._cells_of(floor)))

    def task(self, cell: Cell) -> Callable[[], Run]:
        """The run of a cell in the form that is sent to a worker, with the necessary inputs only."""
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
        trace = self._trace(cell)
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

    def _trace(self, cell: Cell) -> Trace:
        """The cluster and the pods of a cell; a family has other ones for each seed."""
        known = self.inputs.get(cell.trace)
        return known or of_family(cell.trace, cell.seed)

    def _cells_of(self, floor: Floor) -> Iterator[Cell]:
        for trace in self.traces_of(floor):
            for seed in self.seeds_of(floor):
                yield Cell(floor.condition, trace, OURS, seed)
                if floor.figure is None:
                    for policy in floor.references:
                        yield Cell(floor.against or floor.condition, trace, policy, seed)


def _run(protocol: str, experiment: Experiment) -> Run:
    return PROTOCOLS[protocol](experiment).run
