"""What commands read before they begin: a configuration, and a cluster from a file or alive."""

from __future__ import annotations

from pathlib import Path

import click

from scheduler_ext.cli.kubeconfig import implied_kubeconfig
from scheduler_ext.cli.options import check_context
from scheduler_ext.core.errors import ClusterError, ConfigError
from scheduler_ext.extender.clusterstate import ClusterState, file_state
from scheduler_ext.wire.config import Configuration, load_config


def read_config(path: Path | None) -> Configuration:
    """The configuration of a file, or the defaults. Raises ConfigError naming file and key."""
    if path is None:
        return Configuration()
    try:
        return load_config(path.read_bytes())
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


def read_state(
    inventory_file: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    config: Configuration,
    *,
    with_objects: bool = False,
) -> ClusterState:
    """The cluster of a file, or a live one, whose objects are kept where asked for.

    Raises InventoryError, ClusterError, click.UsageError.
    """
    kubeconfig = implied_kubeconfig(inventory_file, kubeconfig)
    one_source(inventory=inventory_file, kubeconfig=kubeconfig)
    check_context(kubeconfig, context)
    if inventory_file is not None:
        return file_state(inventory_file, config)
    assert kubeconfig is not None
    # Here, because importing the client takes longer than most commands.
    from scheduler_ext.cluster.once import cluster_state
    from scheduler_ext.cluster.transport import Transport

    transport = Transport.from_kubeconfig(kubeconfig, context)
    try:
        state = cluster_state(transport, str(kubeconfig), config, with_objects=with_objects)
    except ClusterError as error:
        raise ClusterError(f"kubeconfig {kubeconfig}: {error}") from None
    for problem in state.problems.values():
        click.echo(f"warning: {problem}", err=True)
    return state
