"""Parallel simulations: on the cores of this machine, or on others by joblib's backends."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from scheduler_ext.core.errors import SimulationError

# A running scheduler answers at once; a mistyped address should not take half a minute.
_CONNECT_TIMEOUT_S = 10

_Result = TypeVar("_Result")


def run_all(
    tasks: Sequence[Callable[[], _Result]],
    *,
    jobs: int = 1,
    backend: str = "loky",
    scheduler: str | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> list[_Result]:
    """The results of all tasks, in their order; tasks and results are pickled for other processes.
    `scheduler` is the address of a Dask scheduler or a Ray cluster. `progress` gets the number of newly
    finished tasks. Raises SimulationError for a backend that cannot be used, or loses a task."""
    import joblib

    if backend == "loky" and scheduler is not None:
        raise SimulationError(
            f"scheduler {scheduler}: backend {backend} runs on this machine; drop it or choose dask"
        )
    results: list[_Result] = []
    with _BACKENDS[backend](scheduler):
        parallel = joblib.Parallel(n_jobs=jobs, return_as="generator")
        for result in parallel(joblib.delayed(task)() for task in tasks):
            results.append(result)
            progress(1)
    lost = len(tasks) - len(results)
    if lost:
        raise SimulationError(f"backend {backend}: {lost} of {len(tasks)} runs never came back; run it again")
    return results


@contextmanager
def _loky(_: str | None) -> Iterator[None]:
    # At the end of a failed run, joblib's tracker may warn of semaphores that are gone already: a thread of
    # its queue unlinked one, and was ended before it could report that. Processes inherit the filter.
    inherited = os.environ.get("PYTHONWARNINGS")
    ours = "ignore:resource_tracker:UserWarning"
    os.environ["PYTHONWARNINGS"] = f"{inherited},{ours}" if inherited else ours
    try:
        yield
    finally:
        if inherited is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = inherited


@contextmanager
def _dask(scheduler: str | None) -> Iterator[None]:
    import joblib

    try:
        from distributed import Client
    except ImportError:
        raise SimulationError("backend dask: not installed; pip install 'scheduler-ext[dask]'") from None
    try:
        client: Any = (
            Client(scheduler, timeout=_CONNECT_TIMEOUT_S)  # type: ignore[no-untyped-call]
            if scheduler
            else Client(processes=True)  # type: ignore[no-untyped-call]
        )
    except (OSError, ValueError) as error:
        raise SimulationError(f"scheduler {scheduler}: {error}") from None
    except MemoryError:
        # The first bytes of another protocol were taken for a length, for example at the dashboard's port.
        raise SimulationError(
            f"scheduler {scheduler}: answers, but not as a Dask scheduler; check the port"
        ) from None
    with client, joblib.parallel_config("dask"):
        yield


@contextmanager
def _ray(scheduler: str | None) -> Iterator[None]:
    import joblib

    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise SimulationError("backend ray: not installed; pip install 'scheduler-ext[ray]'") from None
    ray.init(address=scheduler)
    register_ray()
    try:
        with joblib.parallel_config("ray"):
            yield
    finally:
        ray.shutdown()


_BACKENDS: Mapping[str, Callable[[str | None], AbstractContextManager[object]]] = {
    "loky": _loky,
    "dask": _dask,
    "ray": _ray,
}
BACKENDS = tuple(_BACKENDS)
