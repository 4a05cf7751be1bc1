"""What commands read before they begin: a configuration, and a cluster from a file or alive."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from scheduler_ext.cli.kubeconfig_paths import implied_kubeconfig
from scheduler_ext.cli.output import printable
from scheduler_ext.cli.pod_files import STDIN, read_input
from scheduler_ext.cluster.client.kubeconfig import Kubeconfig
from scheduler_ext.core.errors import ClusterError, ConfigError, InventoryError
from scheduler_ext.sources.clusterstate import ClusterState, file_state, state_of
from scheduler_ext.wire.config import Configuration, load_config
from scheduler_ext.wire.files import MAX_CONFIGURATION_BYTES, read_file
from scheduler_ext.wire.objects import read_objects


def read_config(path: Path | None) -> Configuration:
    """The configuration of a file, or the defaults. Raises ConfigError naming file and key."""
    if path is None:
        return Configuration()
    try:
        return load_config(read_file(path, MAX_CONFIGURATION_BYTES))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def one_source(**flags: object) -> None:
    """Raises click.UsageError unless exactly one of these was given."""
    names = [f"--{name.replace('_', '-')}" for name in flags]
    given = [name for name, value in zip(names, flags.values(), strict=True) if value]
    if len(given) != 1:
        which = " and ".join(given) + " are too many" if given else "nothing to read from"
        raise click.UsageError(f"{which}: give one of {', '.join(names)}")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a command has its cluster from: a file, or a live one. Just one of both is there."""

    inventory: Path | None
    kubeconfig: Kubeconfig | None

    def namespace(self, chosen: str | None) -> str:
        """The one that was asked for, or where kubectl puts what names none. Raises ClusterError."""
        if chosen is not None:
            return chosen
        return self.kubeconfig.namespace() if self.kubeconfig is not None else "default"

    def state(self, config: Configuration, *, with_objects: bool = False) -> ClusterState:
        """The cluster, with its objects where asked for. Raises InventoryError, ClusterError."""
        if self.inventory is not None:
            return self._of_file(self.inventory, config)
        assert self.kubeconfig is not None
        # Here, because importing the client takes longer than most commands.
        from scheduler_ext.cluster.client.transport import Transport
        from scheduler_ext.cluster.one_shot import cluster_state

        transport = Transport(self.kubeconfig.configuration())
        try:
            state = cluster_state(transport, str(self.kubeconfig), config, with_objects=with_objects)
        except ClusterError as error:
            raise ClusterError(f"kubeconfig {self.kubeconfig}: {error}") from None
        finally:
            transport.close()
        for problem in state.problems.values():
            click.echo(printable(f"warning: {problem}"), err=True)
        return state

    def _of_file(self, path: Path, config: Configuration) -> ClusterState:
        if str(path) != STDIN:
            return file_state(path, config)
        try:
            return state_of(read_objects(read_input(path)), "standard input", config)
        except OSError as error:
            raise InventoryError(f"standard input: {error.strerror or error}") from None
        except InventoryError as error:
            raise InventoryError(f"standard input: {error}") from None


def source_of(
    inventory_file: Path | None, kubeconfig: Path | None, context: str | None, flag: str = "--inventory"
) -> Source:
    """What was named; the kubeconfig of kubectl where nothing was. ``flag`` is what names the file.

    Raises click.UsageError; ClusterError where $KUBECONFIG names what is not there.
    """
    if inventory_file is not None:
        if kubeconfig is not None:
            raise click.UsageError(f"{flag} and --kubeconfig are too many: give one of {flag}, --kubeconfig")
        if context is not None:
            raise click.UsageError("--context: a file has none; give it with a kubeconfig")
        return Source(inventory_file, None)
    found = implied_kubeconfig(context) if kubeconfig is None else Kubeconfig((kubeconfig,), context)
    if found is None:
        raise click.UsageError(f"nothing to read from: give one of {flag}, --kubeconfig, or set KUBECONFIG")
    return Source(None, found)
