"""`scheduler-ext demo`: a real extender on a sample inventory, with the requests of kube-scheduler."""

from __future__ import annotations

import json
import os
import random
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPConnection
from importlib import import_module
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import click
import yaml

from scheduler_ext.cli.output import print_table
from scheduler_ext.core.errors import SchedulerExtError
from scheduler_ext.core.intree import intree_rejection
from scheduler_ext.core.request.constraints import ANNOTATION_PREFIX
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.feature import installed
from scheduler_ext.sources.clusterstate import ClusterState, state_of
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.node_info import node_facts
from scheduler_ext.wire.objects import Objects, read_objects, read_pods
from scheduler_ext.wire.pod.pod_needs import pod_needs
from scheduler_ext.wire.pod.pod_request import unparsed_request

_HEADER = ("POD", "ASKS", "FITS", "BEST (SCORE)", "BECAUSE", "WHY NOT THE OTHERS")


Shown = Callable[[str, int, int], str]
"""What a feature shows, in words: by the address of the inspection listener, and the numbers of pods that
run and that wait."""
Prepare = Callable[[Path, ClusterState, Sequence[kube.Pod], Configuration, float], Shown]
"""Writes what a feature needs to a folder, which it finds again in `serve`: by the sample, its pods, the
configuration, and wall time in seconds."""


class DemoServer:
    """A `scheduler-ext serve` process, stopped at the end of the context."""

    def __init__(self, inventory: Path, port: int, folder: Path | None = None) -> None:
        """In the folder are files of features."""
        self._command = [
            *(sys.executable, "-m", "scheduler_ext", "serve", "--inventory", str(inventory)),
            *(("--demo-folder", str(folder)) if folder is not None else ()),
            *("--listen", f"127.0.0.1:{port}", "--health-listen", f"127.0.0.1:{port and port + 1}"),
            *("--inspect-listen", f"127.0.0.1:{port and port + 2}"),
        ]

    def __enter__(self) -> DemoServer:
        # Unbuffered: `skip_log` would not see buffered lines.
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, bufsize=0)
        assert self._process.stderr is not None
        self._log = self._process.stderr
        logged = b""
        for line in self._log:
            if line.startswith(b"ready "):
                self.urls = dict(part.split("=", 1) for part in line.decode().split()[1:])
                return self
            logged += line
        self._process.wait()
        raise SchedulerExtError(f"the server did not start: {logged.decode(errors='replace').strip()}")

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(15)
        self._log.close()

    def await_reload(self) -> None:
        """Wait until the server has read its inventory again. Raises SchedulerExtError if it refuses it."""
        for line in self._log:
            if b"inventory read" in line:
                return
            if b"inventory not reloaded" in line:
                raise SchedulerExtError(line.decode(errors="replace").strip())
        raise SchedulerExtError(f"the server exited unexpectedly with status {self._process.wait()}")

    def skip_log(self) -> None:
        """Discard the log so far, such as a warning about an invalid sample pod."""
        while select.select([self._log], [], [], 0)[0] and self._log.read(65536):
            pass

    def wait(self) -> None:
        """Print the log of the server until it exits. Raises SchedulerExtError then."""
        for line in self._log:
            sys.stderr.write(line.decode(errors="replace"))
        raise SchedulerExtError(f"the server exited unexpectedly with status {self._process.wait()}")


def raw_pods(text: bytes) -> Iterator[dict[str, Any]]:
    """The pods as kube-scheduler sends them: without kind, with the defaults of the API server."""
    for number, pod in enumerate(yaml.safe_load_all(text), 1):
        metadata = {"namespace": "default", "uid": f"demo-{number}", **pod["metadata"]}
        yield {"metadata": metadata, "spec": pod["spec"], "status": {"phase": "Pending"}}


def _ask(
    connection: HTTPConnection,
    inspection: HTTPConnection,
    pod: kube.Pod,
    raw: dict[str, Any],
    objects: Objects,
) -> tuple[str, ...]:
    """The row of one pod, by the steps of kube-scheduler: its own filters, then filter, then prioritize. The
    inspection listener explains the best node."""
    why_not: Counter[str] = Counter()
    names, passed = [], []
    points: dict[str, int] = {}
    pods = objects.pods_by_node()
    for name, node in objects.nodes.items():
        facts = node_facts(node, pods.get(name, ()))
        refused = intree_rejection(pod_needs(pod), facts, ignore_resources=frozenset())
        if refused is None:
            names.append(name)
        else:
            why_not[refused.reason] += 1
    random.Random(raw["metadata"]["uid"]).shuffle(names)
    if names:
        args = {"Pod": raw, "Nodes": None, "NodeNames": names}
        result = _post(connection, "/filter", args)
        why_not.update(result["FailedAndUnresolvableNodes"].values())
        passed = result["NodeNames"]
        if passed:
            entries = _post(connection, "/prioritize", {**args, "NodeNames": passed})
            points = {entry["Host"]: entry["Score"] for entry in entries}
    most = max(points.values(), default=0)
    best = sorted(name for name, score in points.items() if score == most)
    more = f" +{len(best) - 2}" if len(best) > 2 else ""
    reasons = sorted(why_not.items(), key=lambda item: (-item[1], item[0]))
    return (
        raw["metadata"]["name"],
        _asks(pod),
        f"{len(passed)} of {len(names)}",
        f"{', '.join(best[:2])}{more} ({most})" if best else "none",
        _post(inspection, "/explain", {"apiVersion": "v1", "kind": "Pod", **raw})["because"] or "",
        ", ".join(f"{count} {reason}" for reason, count in reasons),
    )


def _post(connection: HTTPConnection, path: str, args: dict[str, Any]) -> Any:
    connection.request("POST", path, json.dumps(args), {"Content-Type": "application/json"})
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        raise SchedulerExtError(f"{path}: {response.status} {body.decode(errors='replace')}")
    return json.loads(body)


def _asks(pod: kube.Pod) -> str:
    """The GPU request and the annotations of a pod."""
    ask = unparsed_request(pod, ResourceNames())
    parts = [
        f"{name.removeprefix('nvidia.com/').removeprefix('gpu.scheduler-ext.io/')}={amount}"
        for container in ask.containers
        for name, amount in container.limits.items()
    ]
    parts += [f"{key.removeprefix(ANNOTATION_PREFIX)}={value}" for key, value in ask.annotations.items()]
    return " ".join(parts + ([f"priority={ask.priority}"] if ask.priority else []))


@click.command()
@click.option("--once", is_flag=True, help="Exit after the table, as without a terminal.")
@click.option(
    "--port",
    # Health and inspection use the next two ports.
    type=click.IntRange(0, 65533),
    default=8888,
    help="Port of the API; 0 for any free port.",
)
def demo(once: bool, port: int) -> None:
    """Serve a sample inventory and place sample pods on it.

    Sends 15 pods to the extender, as kube-scheduler would, and prints the decisions. In a terminal it then
    keeps serving, with the live page, until Ctrl-C.
    """
    # Without this, SIGTERM would end the demo and leave its server behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    package = files("scheduler_ext.demo")
    text = package.joinpath("pods.yaml").read_bytes()
    sample = package.joinpath("sample-inventory.yaml")
    if once or not sys.stdout.isatty():
        with as_file(sample) as path:
            with DemoServer(path, port) as server:
                _print_decisions(server, text, read_objects(path.read_bytes()))
            print(_next_steps(path))
        return
    try:
        _serve_on(text, sample.read_bytes(), port)
    except KeyboardInterrupt:
        print("\nstopping")


def _print_decisions(server: DemoServer, text: bytes, objects: Objects) -> None:
    """Ask the server about the pods in `text`, and print its answers."""
    print(
        f"An extender serves {len(objects.nodes)} nodes at {server.urls['api']}."
        " Its answers to kube-scheduler about the sample pods:\n"
    )
    # One keep-alive connection, as kube-scheduler holds it.
    connection = HTTPConnection(server.urls["api"].removeprefix("http://"), timeout=5)
    inspection = HTTPConnection(server.urls["inspect"].removeprefix("http://"), timeout=5)
    pods = zip(read_pods(text), raw_pods(text), strict=True)
    rows = [_ask(connection, inspection, pod, raw, objects) for pod, raw in pods]
    connection.close()
    inspection.close()
    print_table(_HEADER, rows)
    print(
        "\nFITS: the nodes that fit, of those that kube-scheduler's own filters leave. "
        "BEST: the score from 0 to 10."
    )


def _serve_on(text: bytes, sample: bytes, port: int) -> None:
    """Print the decisions about the pods in `text`, place the pods on the sample, and serve until Ctrl-C."""
    # Here, because a demo that ends by itself needs neither.
    from scheduler_ext.demo.placing import with_pods

    config, pods = Configuration(), read_pods(text)
    state = state_of(read_objects(sample), "the sample", config.resource_names())
    with tempfile.TemporaryDirectory(prefix="scheduler-ext-demo-") as name:
        folder = Path(name)
        inventory = folder / "inventory.yaml"
        inventory.write_bytes(sample)
        prepares: list[Prepare] = [import_module(each.demo).prepare for each in installed() if each.demo]
        shown = [prepare(folder, state, pods, config, time.time()) for prepare in prepares]
        with DemoServer(inventory, port, folder) as server:
            _print_decisions(server, text, state.objects)
            placed = with_pods(sample, list(raw_pods(text)), pods, state, time.time())
            server.skip_log()
            written = folder / "written.json"
            written.write_bytes(placed.inventory)
            written.replace(inventory)
            server.await_reload()
            server.skip_log()
            inspection, health = server.urls["inspect"], server.urls["health"]
            words = [of(inspection, placed.running, placed.waiting) for of in shown]
            print("\n" + " ".join([*words, f"Metrics are at {health}/metrics. Ctrl-C ends."]), flush=True)
            server.wait()


def _next_steps(inventory: Path) -> str:
    """The next steps after a demo that ends by itself; `inventory` is the sample."""
    program = shlex.quote(sys.argv[0] if sys.argv[0].endswith("scheduler-ext") else "scheduler-ext")
    return (
        "\nThe server has stopped. To keep it and its page, run the demo in a terminal and without --once or "
        "ONCE=1.\nTo ask about a pod of your own:\n"
        f"  {program} explain -f POD.yaml --inventory {shlex.quote(os.path.relpath(inventory))}"
    )
