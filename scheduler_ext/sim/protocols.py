"""The protocols by name, and the sweep over experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from scheduler_ext.sim.churn import run_churn
from scheduler_ext.sim.experiment import Experiment, Outcome
from scheduler_ext.sim.inflation import run_inflation
from scheduler_ext.sim.sweep import run_all

PROTOCOLS: Mapping[str, Callable[[Experiment], Outcome]] = {
    "inflation": run_inflation,
    "churn": run_churn,
}


def run_experiments(
    protocol: str,
    experiments: Sequence[Experiment],
    *,
    jobs: int = 1,
    backend: str = "loky",
    scheduler: str | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Outcome]:
    """The outcomes in the order of the experiments; other arguments as for ``run_all``."""
    tasks = [partial(PROTOCOLS[protocol], experiment) for experiment in experiments]
    return run_all(tasks, jobs=jobs, backend=backend, scheduler=scheduler, progress=progress)
