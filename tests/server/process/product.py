"""`scheduler-ext serve` as a process, on the cluster of the golden bodies."""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.extender.answer import Answer
from scheduler_ext.extender.extender import Extender
from scheduler_ext.main import main
from scheduler_ext.server.app import NO_BIND, Verb
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.objects import assemble, read_objects, workload_of
from tests.kube_objects import Json, names_body, pod
from tests.server.process.server_process import REPOSITORY, Reply, ServerProcess, call, get, request

GOLDEN = REPOSITORY / "tests" / "golden"
INVENTORY = GOLDEN / "inventory.yaml"
WHOLE = "nvidia.com/gpu"
ONE_GPU = pod("one", {WHOLE: "1"})
FREE_NODE, FULL_NODE = "gpu-node-00", "gpu-node-02"
# A request with a known answer, to see that a server is well.
GOOD = names_body(ONE_GPU, [FREE_NODE, FULL_NODE])
GOOD_REFUSED = {FULL_NODE: "Insufficient nvidia.com/gpu per device"}
_FREE_PORT = "127.0.0.1:0"


# No decision is refused because the machine is busy; tests of that deadline set it.
_PATIENT = Path(__file__).with_name("patient.json")


class Product(ServerProcess):
    """The product's own server; later arguments replace the free ports that are the default."""

    MODULE: ClassVar = ("scheduler_ext", "serve")

    def __init__(
        self,
        *arguments: str | Path,
        inventory: Path = INVENTORY,
        config: Path = _PATIENT,
        env: dict[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(*_with_defaults(arguments, inventory, config), env=env, tls=tls)

    def post(self, verb: str, body: bytes, *headers: str) -> Reply:
        """One request on a connection of its own."""
        with self.connect() as sock:
            return call(sock, request(f"/{verb}", body, *headers))

    def samples(self) -> dict[str, float]:
        """The samples of /metrics: name{label="value"}, labels in alphabetical order."""
        return samples_of(get(self.health, "/metrics").body.decode())


def samples_of(exposition: str) -> dict[str, float]:
    return {
        f"{sample.name}{_labels(sample.labels)}": sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
    }


def usage_error(*arguments: str | Path, env: dict[str, str] | None = None, code: int = 2) -> str:
    """The error of a command line that is refused before a server begins, seen in this process."""
    result = CliRunner(env=env).invoke(main, ["serve", *_with_defaults(arguments)])
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    (error,) = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    return error


def _with_defaults(
    arguments: Sequence[str | Path], inventory: Path = INVENTORY, config: Path = _PATIENT
) -> list[str]:
    ports = ("--listen", _FREE_PORT, "--health-listen", _FREE_PORT, "--inspect-listen", _FREE_PORT)
    return ["--inventory", str(inventory), "--config", str(config), *ports, *map(str, arguments)]


def _labels(labels: dict[str, str]) -> str:
    return (
        "{" + ",".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}" if labels else ""
    )


def config_file(folder: Path, **sections: Json) -> Path:
    """A configuration of these sections, as patient as that of others."""
    path = folder / "config.json"
    patient = json.loads(_PATIENT.read_text())
    server = patient["server"] | sections.get("server", {})
    path.write_text(json.dumps(patient | sections | {"server": server}))
    return path


def replaced(path: Path, content: bytes) -> None:
    """As a mounted ConfigMap changes: at once, so that no reader sees half of it."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    os.replace(new, path)


def extender_on(inventory: bytes) -> Extender:
    """The extender of this process on an inventory, for the expected answers."""
    config = Configuration()
    extender = Extender(config)
    objects, resources = read_objects(inventory), config.resource_names()
    forecast = Forecast(workload_of(objects.pods, resources), ())
    extender.replace_nodes(assemble(objects, resources).values(), forecast)
    return extender


def answers_of(inventory: bytes, bodies: Sequence[tuple[str, bytes]]) -> list[bytes]:
    """The extender's answers on an inventory to bodies with their verbs, one after the other."""
    extender = extender_on(inventory)
    verbs: dict[str, Verb] = {
        "filter": extender.filter,
        "prioritize": extender.prioritize,
        "preempt": extender.preemptor.preempt,
        # No cluster for binds.
        "bind": lambda body, deadline: Answer(NO_BIND, 1, 0),
    }
    return [verbs[verb](body, time.monotonic() + 60).body for verb, body in bodies]


def assert_well(reply: Reply) -> None:
    """The right answer to the filter of GOOD, on a connection that stays."""
    assert reply.status == 200, reply.body
    assert filtered(reply) == ([FREE_NODE], GOOD_REFUSED)
    assert reply.headers["connection"] == "keep-alive"


def filtered(reply: Reply) -> tuple[list[str], dict[str, str]]:
    """(nodes that fit, other nodes with reasons) of a filter reply in the names form."""
    result: dict[str, Any] = reply.json()
    assert (result["Nodes"], result["FailedNodes"], result["Error"]) == (None, {}, "")
    return result["NodeNames"], result["FailedAndUnresolvableNodes"]
