"""The command: `python -m benchmarks.scheduler.bursts` (`__init__.py` explains the comparison)."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.scheduler.bursts.burst import Burst, run_burst
from benchmarks.scheduler.bursts.cluster import GPUS_PER_NODE, create_nodes, prepare
from benchmarks.scheduler.bursts.contenders import CONTENDERS, Contender, running
from benchmarks.scheduler.bursts.cores import Cores, started_on
from benchmarks.scheduler.bursts.table import bound_lines, rows, table
from benchmarks.scheduler.suite import turned
from scheduler_ext.machine import describe_machine, machine_line
from tests.e2e.cluster.binaries import find_binaries, kubernetes_version
from tests.e2e.cluster.control_plane import running_control_plane


def measure(
    sizes: Sequence[int], pods: int, rounds: int, contenders: Sequence[Contender], cores: Cores
) -> list[Burst]:
    """All bursts of all rounds at all sizes, in ascending order."""
    bursts = []
    with started_on(cores.api), tempfile.TemporaryDirectory(prefix="burst-benchmark-") as folder:
        own, control_plane = Path(folder, "benchmark"), Path(folder, "control-plane")
        own.mkdir()
        control_plane.mkdir()
        with running_control_plane(find_binaries(), control_plane) as plane:
            prepare(plane, own)
            present = 0
            for nodes in sizes:
                create_nodes(plane.api, range(present, nodes))
                present = nodes
                for number in range(rounds):
                    for contender in turned(contenders, number):
                        with contextlib.ExitStack() as stack:
                            with started_on(cores.scheduler):
                                ready = stack.enter_context(running(contender, plane, own, nodes))
                            burst = run_burst(plane, own, ready, nodes, number, pods, cores)
                        print(json.dumps(burst.as_json()), file=sys.stderr, flush=True)
                        bursts.append(burst)
    return bursts


def main() -> None:
    """The command line; exit 1 if pods were not bound, never for slowness."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scheduler.bursts")
    parser.add_argument("--nodes", default="100,1000,5000,20000", help="sizes of the cluster")
    parser.add_argument("--pods", type=int, default=1000, help="of each burst")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    parser.add_argument(
        "--apart",
        action="store_true",
        help="the API server on one core, kube-scheduler and extender on another",
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--smoke", action="store_true", help="small and short: does it run?")
    asked = parser.parse_args()
    sizes = sorted(map(int, asked.nodes.split(",")))
    if asked.smoke:
        sizes, asked.pods, asked.rounds = [20], 100, 1
    if asked.pods > sizes[0] * GPUS_PER_NODE:
        parser.error(f"--pods {asked.pods} do not fit on {sizes[0]} nodes of {GPUS_PER_NODE} GPUs")
    try:
        cores = Cores.apart() if asked.apart else Cores.shared()
    except ValueError as error:
        parser.error(f"--apart: {error}")
    machine = describe_machine()
    contenders = [CONTENDERS[name] for name in asked.contenders.split(",")]
    bursts = measure(sizes, asked.pods, asked.rounds, contenders, cores)
    found = rows(bursts)
    apart = ", API server and kube-scheduler on one core each" if asked.apart else ""
    about = (
        f"kube-scheduler {kubernetes_version()}, bursts of {asked.pods} pods{apart}, {machine_line(machine)}"
    )
    print("\n".join((f"{about}\n", table(found), *bound_lines(found))))
    if asked.json is not None:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        report = {
            "machine": machine,
            "kubernetes": kubernetes_version(),
            "apart": asked.apart,
            "rows": found,
            "bursts": [each.as_json() for each in bursts],
        }
        asked.json.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(any(row["unbound"] for row in found))


if __name__ == "__main__":
    main()
