"""A real Prometheus that scrapes servers of a test, and promtool beside it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

_LISTENS = re.compile(r'msg="Listening on" address=(\S+)')
_READY_S = 60.0

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="needs prometheus and promtool on PATH (Debian: apt install prometheus)",
)


def promtool(*arguments: str | Path) -> str:
    """promtool's output; fails the test if it reports an error."""
    command = ["promtool", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Prometheus:
    """Scrapes every half second; stopped at the end of the context. The targets are by cluster, the value of
    their label; those of "" have no such label."""

    def __init__(self, folder: Path, targets: Mapping[str, Sequence[tuple[str, int]]], rules: str) -> None:
        (folder / "rules.yaml").write_text(rules)
        scrape = {
            "job_name": "gpu-scheduler",
            "honor_labels": True,
            "static_configs": [
                {
                    "targets": [f"{host}:{port}" for host, port in listeners],
                    "labels": {"cluster": cluster} if cluster else {},
                }
                for cluster, listeners in targets.items()
            ],
        }
        config = {
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [scrape],
        }
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        self._process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                "--web.listen-address=127.0.0.1:0",
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        self._said: list[str] = []
        self._address = ""
        self._listens = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line)
            found = _LISTENS.search(line)
            if found:
                self._address = found[1]
                self._listens.set()
        self._listens.set()

    def __enter__(self) -> Self:
        self._listens.wait(_READY_S)
        assert self._address, "".join(self._said)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(5)
        assert self._process.stderr is not None
        self._process.stderr.close()

    def get(self, path: str, **parameters: str) -> Any:
        """The answer of its API under /api/v1. Raises OSError."""
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as reply:
            return json.load(reply)["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """(labels, value) of everything an expression yields now."""
        found = self.get("query", query=expression)
        assert found["resultType"] == "vector", expression
        return [(each["metric"], float(each["value"][1])) for each in found["result"]]

    def value(self, expression: str) -> float:
        """The one value that an expression yields now."""
        ((_, value),) = self.query(expression)
        return value

    def eventually(self, true: Callable[[], object]) -> None:
        """Wait until something holds."""
        until = time.monotonic() + _READY_S
        while True:
            try:
                if true():
                    return
            except (OSError, ValueError):
                # Not up yet, or nothing scraped.
                pass
            assert time.monotonic() < until, "".join(self._said[-20:])
            time.sleep(0.2)
