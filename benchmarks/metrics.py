"""The cost of a scrape of /metrics at each level of detail: time at the client, and size.

    python -m benchmarks.metrics --nodes 5000 --json FILE

`scheduler-ext serve` has the reports of a cluster whose nodes have eight GPUs each, half of them held by
pods. It is scraped over HTTP, as by Prometheus: a first time, and then without changes. The cost when every
node has changed since the last scrape is measured in this process.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
import urllib.request
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from benchmarks.inventory import write_objects
from benchmarks.large import large
from benchmarks.processes import running_listeners
from benchmarks.report import aligned
from scheduler_ext.extender.extender import Extender
from scheduler_ext.machine import describe_machine, machine_line
from scheduler_ext.server.metrics.gpu_metrics import Detail
from scheduler_ext.server.metrics.registry import Metrics
from scheduler_ext.sources.file_source import InventorySource
from scheduler_ext.wire.config import API_VERSION, KIND, load_config

DETAILS: tuple[Detail, ...] = get_args(Detail)
# Half of the GPUs are held.
_PODS_PER_NODE = 4 * large.GPU_EVERY
_HEAD = {"apiVersion": API_VERSION, "kind": KIND}


def write_cluster(path: Path, nodes: int) -> None:
    """An inventory file of that many nodes, and the pods that hold GPUs on them."""
    pods = nodes * _PODS_PER_NODE
    asking = (pod for number, pod in enumerate(large.pods(pods, nodes)) if number % large.GPU_EVERY == 0)
    write_objects(path, (*large.gpunodes(nodes, pods=pods), *large.nodes(nodes), *asking))


def timed(call: Callable[[], bytes]) -> tuple[float, bytes]:
    """The seconds that a call takes, and its result."""
    started = time.perf_counter()
    text = call()
    return time.perf_counter() - started, text


def measure(detail: Detail, inventory: Path, folder: Path, repeats: int) -> dict[str, Any]:
    """One level of detail, as plain JSON values; seconds are medians, except for the first scrape."""
    config = folder / f"{detail}.json"
    config.write_text(json.dumps({**_HEAD, "metrics": {"detail": detail}}))
    listen = [f"--{name}listen=127.0.0.1:0" for name in ("", "health-", "inspect-")]
    serve = [sys.executable, "-m", "scheduler_ext", "serve", "--inventory", str(inventory)]
    with running_listeners([*serve, "--config", str(config), *listen]) as url_of:
        scrape = _scraper(f"{url_of('health')}/metrics")
        first_s, text = timed(scrape)
        unchanged = [timed(scrape)[0] for _ in range(repeats)]
    return {
        "detail": detail,
        "series": sum(not line.startswith(b"#") for line in text.splitlines()),
        "bytes": len(text),
        "gzipBytes": len(zlib.compress(text, 6)),
        "firstSeconds": round(first_s, 3),
        "unchangedSeconds": round(statistics.median(unchanged), 3),
        "allChangedSeconds": round(statistics.median(all_changed(config, inventory, repeats)), 3),
    }


def _scraper(url: str) -> Callable[[], bytes]:
    def scrape() -> bytes:
        with urllib.request.urlopen(url, timeout=60) as reply:
            body: bytes = reply.read()
            return body

    return scrape


def all_changed(config_file: Path, inventory: Path, repeats: int) -> list[float]:
    """Seconds to render after every node has changed."""
    config = load_config(config_file.read_bytes())
    extender = Extender(config)
    source = InventorySource(inventory, extender, config.resource_names())
    source.load()
    metrics = Metrics(source, config)
    metrics.render()
    seconds = []
    for _ in range(repeats):
        assert source.snapshot is not None
        # Equal but not identical, so that only a comparison shows that nothing changed.
        extender.replace_nodes([replace(node.info) for node in source.snapshot.nodes.values()])
        # As the server does when everything has changed.
        gc.collect()
        gc.freeze()
        seconds.append(timed(lambda: b"".join(metrics.render()))[0])
    return seconds


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metrics")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        inventory = Path(folder) / "inventory.json"
        write_cluster(inventory, asked.nodes)
        rows = [measure(detail, inventory, Path(folder), asked.repeats) for detail in DETAILS]
    report = {"machine": describe_machine(), "nodes": asked.nodes, "gpusPerNode": large.DEVICES, "rows": rows}
    if asked.json is not None:
        asked.json.write_text(json.dumps(report, indent=2) + "\n")
    print(machine_line(report["machine"]))
    print(f"{asked.nodes} nodes of {large.DEVICES} GPUs")
    print(aligned([tuple(rows[0]), *(tuple(str(value) for value in row.values()) for row in rows)]))


if __name__ == "__main__":
    main()
