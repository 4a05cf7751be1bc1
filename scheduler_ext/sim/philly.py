"""Microsoft's Philly trace: machines, and jobs with whole GPUs. Format: README and notebook of
msr-fiddle/philly-traces (Jeon et al., USENIX ATC'19). `cluster_machine_list` is a CSV with the columns
machineId, number of GPUs and single GPU mem. `cluster_job_log` is a JSON list of jobs, each with the servers
and GPUs of its attempts. The trace has neither requests of CPU nor of main memory."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, field

from scheduler_ext.core.errors import SimulationError
from scheduler_ext.sim.csv_rows import MOST_GPUS, csv_rows, shown
from scheduler_ext.sim.openb import Traces
from scheduler_ext.sim.trace_workload import GPU_MILLI, PodKind, TracePod
from scheduler_ext.sim.world import TraceNode
from scheduler_ext.wire.files import MAX_TRACE_BYTES, read_file

_NAME, _GPUS, _MEMORY = "machineId", "number of GPUs", "single GPU mem"
# The place of an error in msgspec's message.
_BYTE = re.compile(r"\(byte ([0-9]+)\)")


class _Server(Struct):
    """The GPUs of an attempt on one server."""

    gpus: list[str]


class _Attempt(Struct):
    detail: list[_Server] = field(default_factory=list[_Server])


class _PhillyJob(Struct):
    jobid: str
    attempts: list[_Attempt] = field(default_factory=list[_Attempt])


def read_philly(machines: Path, jobs: Sequence[Path]) -> tuple[tuple[TraceNode, ...], Traces, list[str]]:
    """The nodes, the pods of each file of jobs by its name without the suffix, and notes on jobs left out.
    Raises SimulationError, which names the file, and the line or the field."""
    nodes = tuple(_nodes(machines))
    if not any(node.gpus for node in nodes):
        raise SimulationError(f"{machines}: no machine has a GPU; there is nothing to place on")
    traces: Traces = {}
    notes = []
    for path in jobs:
        found = _jobs(path)
        traces[path.stem] = tuple(pod for number, job in enumerate(found) for pod in _pods(path, number, job))
        without = sum(not any(server.gpus for server in _first_servers(job)) for job in found)
        if without:
            notes.append(
                f"{path.stem}: {without} of {len(found)} jobs have no recorded GPUs; they are left out"
            )
        if not traces[path.stem]:
            raise SimulationError(f"{path}: no job has an attempt with GPUs")
    return nodes, traces, notes


def _nodes(path: Path) -> Iterator[TraceNode]:
    """The machines; a GPU's model is its memory, such as 24GB, as the trace names no other."""
    seen: set[str] = set()
    for row in csv_rows(path, (_NAME, _GPUS, _MEMORY)):
        name = row.text(_NAME)
        if not name or name in seen:
            problem = f"{shown(name)!r} names another machine already" if name else "a machine needs a name"
            raise row.error(_NAME, problem)
        seen.add(name)
        gpus, memory = row.number(_GPUS, MOST_GPUS), row.text(_MEMORY)
        if gpus and not memory:
            raise row.error(_MEMORY, "a machine with GPUs needs the memory of one, such as 24GB")
        yield TraceNode(name, 0, 0, gpus, memory)


def _jobs(path: Path) -> list[_PhillyJob]:
    try:
        text = read_file(path, MAX_TRACE_BYTES)
    except OSError as error:
        raise SimulationError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        return msgspec.json.decode(text, type=list[_PhillyJob])
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$")
        raise SimulationError(f"{path}, job {where.rstrip('`') or 'list'}: {problem}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        byte = _BYTE.search(str(error))
        lines = text.count(b"\n", 0, int(byte[1])) if byte else 0
        raise SimulationError(f"{path}, line {lines + 1}: is no JSON: {error}") from None
    except RecursionError:
        raise SimulationError(f"{path}: is no JSON: nested too deeply") from None


def _first_servers(job: _PhillyJob) -> list[_Server]:
    """The servers of the first attempt, whose GPUs are those of the job, as in the trace's own analysis."""
    return job.attempts[0].detail if job.attempts else []


def _pods(path: Path, number: int, job: _PhillyJob) -> Iterator[TracePod]:
    """A pod for each server, because a pod is on one node only; those of several servers are a gang."""
    servers = [server for server in _first_servers(job) if server.gpus]
    for index, server in enumerate(servers):
        if len(server.gpus) > MOST_GPUS:
            raise SimulationError(
                f"{path}, job [{number}] {shown(job.jobid)}: {len(server.gpus)} GPUs on one server; "
                f"at most {MOST_GPUS}"
            )
        name = job.jobid if len(servers) == 1 else f"{job.jobid}-{index}"
        gang = f"{job.jobid} {number}" if len(servers) > 1 else ""
        yield TracePod(name, PodKind(0, 0, len(server.gpus), GPU_MILLI), gang=gang)
