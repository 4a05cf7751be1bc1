"""Settings of the whole suite: Hypothesis' examples, the order of files, and the garbage collector.

Hypothesis tries the same examples on every run, and many new ones on demand.
`pytest --hypothesis-profile=fresh` draws new examples each time, as many as `long` has; its findings
belong into an example.
"""

from __future__ import annotations

import gc
import logging
import signal
import sys
from collections.abc import Generator, Iterator
from itertools import chain, zip_longest
from logging.handlers import BufferingHandler
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A shell without job control starts `.ci/run &` with SIGINT ignored; servers of the tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The folders whose tests wait for processes and connections.
_WAITING = {"benchmarks", "cli", "cluster", "commands", "live", "monitoring", "reclaim", "server", "sources"}

# Deadlines measure the machine, and a cluster is large data by nature; neither says anything of a law.
_QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large)

# For each change a quarter of the examples that CI tries (full), always the same ones.
for name, examples in (("default", 20), ("full", 100), ("long", 1000)):
    settings.register_profile(
        name, max_examples=examples, derandomize=True, deadline=None, suppress_health_check=_QUIET
    )
settings.register_profile("fresh", max_examples=1000, deadline=None, suppress_health_check=_QUIET)
settings.load_profile("default")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests stay to the end, and to walk them takes a fifth of the time of collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep how pytest ended, for CI: it goes on after failed tests, and after nothing else."""
    cache = getattr(session.config, "cache", None)
    if cache is not None and not hasattr(session.config, "workerinput"):
        cache.set("ci/exit", int(exitstatus))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that wait and files that compute alternate, so that workers side by side share the cores."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    waiting = [tests for path, tests in files.items() if not _WAITING.isdisjoint(path.parts)]
    computing = [tests for path, tests in files.items() if _WAITING.isdisjoint(path.parts)]
    items[:] = chain.from_iterable(chain.from_iterable(zip_longest(waiting, computing, fillvalue=[])))


@pytest.fixture(scope="session", autouse=True)
def unsettled_heap() -> Iterator[None]:
    """A loaded inventory does not settle the heap of this process, which holds all tests as well.

    That would walk them for a third of a second each time. test_heap.py runs the real function.
    """
    readers = ("scheduler_ext.sources.file_source", "scheduler_ext.cluster.live")
    with pytest.MonkeyPatch.context() as patch:
        for name in readers:
            if name in sys.modules:
                patch.setattr(sys.modules[name], "settle_heap", lambda: None)
        yield


@pytest.fixture(autouse=True)
def deaths(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test in which a background thread dies, unless it is marked `dies`."""
    handler, logger = BufferingHandler(1000), logging.getLogger("scheduler_ext.background")
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
    if request.node.get_closest_marker("dies") is None:
        assert [logging.Formatter().format(record) for record in handler.buffer] == []
