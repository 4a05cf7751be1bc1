"""The applications of `scheduler-ext serve` in the process of a test, asked without a connection."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pytest
from werkzeug.test import Client, TestResponse

from scheduler_ext.cli import serving_apps as serving_apps_module
from scheduler_ext.extender.extender import Extender
from scheduler_ext.server.server_options import Apps
from scheduler_ext.server.serving import Serving
from scheduler_ext.sources import file_source
from scheduler_ext.sources.file_source import InventorySource
from scheduler_ext.sources.inventory_file import read_nodes
from scheduler_ext.wire.config import Configuration, ServerSection
from tests.server.process.product import INVENTORY, samples_of

# No decision is refused because the machine is busy.
PATIENT = Configuration(server=ServerSection(decision_deadline="60s"))
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Served:
    """The three applications, at work on an inventory file."""

    def __init__(self, apps: Apps) -> None:
        self.apps = apps
        self._api, self._health, self._inspect = (
            Client(app) for app in (apps.api, apps.health, apps.inspect)
        )

    def post(self, verb: str, body: bytes, **headers: str) -> TestResponse:
        """One request of kube-scheduler."""
        return self._api.post(f"/{verb}", data=body, headers=_named(headers))

    def ask(
        self,
        listener: str,
        path: str,
        method: str = "GET",
        body: bytes = b"",
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> TestResponse:
        """One request; underscores in the names of headers stand for dashes."""
        client = {"api": self._api, "health": self._health, "inspect": self._inspect}[listener]
        return client.open(path, method=method, data=body, headers=_named(headers))

    def inspect(self, path: str, **headers: str) -> TestResponse:
        return self.ask("inspect", path, headers=headers)

    def samples(self) -> dict[str, float]:
        """The samples of /metrics: name{label="value"}, labels in alphabetical order."""
        return samples_of(self.ask("health", "/metrics").text)


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def loaded(
    inventory: Path, extender: Extender, config: Configuration, _features: Sequence[Serving] = ()
) -> InventorySource:
    """An inventory file, read without a child process."""
    source = InventorySource(inventory, extender, config.resource_names())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_source, "read_nodes_apart", read_nodes)
        source.load()
    return source


@contextmanager
def served(inventory: Path = INVENTORY, config: Configuration = PATIENT) -> Iterator[Served]:
    """`scheduler-ext serve --inventory`, without its processes and listeners."""

    interval = sys.getswitchinterval()
    with pytest.MonkeyPatch.context() as patch:
        # Nothing of this process's memory changes.
        patch.setattr(serving_apps_module, "share_one_arena", lambda: None)
        apps = serving_apps_module.serving_apps(config, partial(loaded, inventory), None, None)
    try:
        yield Served(apps)
    finally:
        apps.close()
        sys.setswitchinterval(interval)
