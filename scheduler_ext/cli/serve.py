"""`scheduler-ext serve`: the extender itself."""

from __future__ import annotations

import logging
import os
import socket
import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scheduler_ext.cli.files import STDIN, config_option
from scheduler_ext.cli.options import (
    FILE,
    INVENTORY,
    NAMESPACED_NAME,
    Parsed,
    check_context,
    context_option,
    in_cluster_option_with,
    inventory_option_with,
    kubeconfig_option_with,
    log_format_option,
)
from scheduler_ext.core.errors import ConfigError

if TYPE_CHECKING:
    from scheduler_ext.cli.serving_apps import BuildSource
    from scheduler_ext.cluster.live import BuildLeader, LiveInventory
    from scheduler_ext.extender.extender import Extender
    from scheduler_ext.server.server_options import Apps, TlsFiles
    from scheduler_ext.server.serving import Serving
    from scheduler_ext.sources.file_source import InventorySource
    from scheduler_ext.wire.config import Configuration

log = logging.getLogger(__name__)


def _listen(text: str) -> tuple[str, int]:
    """HOST:PORT, [V6]:PORT; port 0 is any free one."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"{text!r} is no HOST:PORT such as 127.0.0.1:8888")
    return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)


_LISTEN = Parsed("host:port", _listen)


@click.command()
@config_option
@inventory_option_with(help=f"File of {INVENTORY}; read again when it changes.")
@kubeconfig_option_with(help="Kubeconfig of the cluster to watch.")
@context_option
@in_cluster_option_with(help="Watch the cluster of this pod.")
@click.option(
    "--lease",
    type=NAMESPACED_NAME,
    help="kube-scheduler's Lease, NAMESPACE/NAME: this extender writes to the cluster only while its pod "
    "holds the Lease (default: always).",
)
@click.option(
    "--own-lease",
    type=NAMESPACED_NAME,
    help="A separate Lease, NAMESPACE/NAME, for an extender without a kube-scheduler in its pod: only the "
    "holder writes to the cluster.",
)
@click.option(
    "--pod-name",
    envvar="POD_NAME",
    default=socket.gethostname,
    show_default="$POD_NAME, or the host name",
    help="Name of this pod, compared with the holder of the Lease.",
)
@click.option("--listen", type=_LISTEN, default="127.0.0.1:8888", help="kube-scheduler's verbs.")
@click.option("--health-listen", type=_LISTEN, default="127.0.0.1:8889", help="Probes and metrics.")
@click.option(
    "--inspect-listen",
    type=_LISTEN,
    default="127.0.0.1:8890",
    help="Inspection of decisions, and the live page; loopback addresses only.",
)
@click.option(
    "--tls-cert-file", type=FILE, help="Serve the API over TLS: its certificate, followed by intermediates."
)
@click.option("--tls-key-file", type=FILE, help="The key of that certificate.")
@click.option("--client-ca-file", type=FILE, help="CA of the required client certificates.")
@log_format_option
@click.option("--demo-folder", type=FILE, hidden=True, help="Files of the demo, for features.")
@click.option("--workers", type=int, hidden=True, help="Anything but 1 is refused.")
def serve(
    config: Configuration,
    inventory_file: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    in_cluster: bool,
    lease: tuple[str, str] | None,
    own_lease: tuple[str, str] | None,
    pod_name: str,
    listen: tuple[str, int],
    health_listen: tuple[str, int],
    inspect_listen: tuple[str, int],
    tls_cert_file: Path | None,
    tls_key_file: Path | None,
    client_ca_file: Path | None,
    log_format: str,
    demo_folder: Path | None,
    workers: int | None,
) -> None:
    """Run the extender for kube-scheduler.

    Answers filter, prioritize, preempt and bind calls until SIGTERM or Ctrl-C.
    """
    # Here, because gunicorn reads its environment when imported, and the other commands need no server.
    from scheduler_ext.server.gunicorn_server import refuse_workers

    sources = {"--inventory": inventory_file, "--kubeconfig": kubeconfig, "--in-cluster": in_cluster}
    given = [flag for flag, value in sources.items() if value]
    if len(given) != 1:
        which = " and ".join(given) + " are too many" if given else "nothing to read from"
        raise click.UsageError(f"{which}: give one of {', '.join(sources)}")
    check_context(kubeconfig, context)
    if inventory_file is not None and str(inventory_file) == STDIN:
        raise click.UsageError("--inventory -: serve reads its inventory again when it changes; give a file")
    for flag, named in (("--lease", lease), ("--own-lease", own_lease)):
        if named is not None and inventory_file is not None:
            raise click.UsageError(f"{flag}: an inventory file has no cluster to lead; leave it out")
    if lease is not None and own_lease is not None:
        raise click.UsageError("--lease and --own-lease exclude each other; give one of them")
    refusal = refuse_workers(os.environ, workers)
    if refusal is not None:
        raise click.UsageError(refusal)
    from scheduler_ext.logs import configure_logs
    from scheduler_ext.server.gunicorn_server import run_server
    from scheduler_ext.server.server_options import ServerOptions, is_loopback

    tls = _tls_files(tls_cert_file, tls_key_file, client_ca_file)
    configure_logs(log_format)
    if config.bind.enabled and inventory_file is not None:
        raise click.UsageError("bind.enabled: an inventory file has no cluster to bind in; set it to false")
    try:
        options = ServerOptions(
            api_listen=listen,
            health_listen=health_listen,
            inspect_listen=inspect_listen,
            read_timeout_s=config.server.duration_s("read_timeout"),
            write_timeout_s=config.server.duration_s("write_timeout"),
            graceful_timeout_s=config.server.duration_s("graceful_timeout"),
            max_body_bytes=config.server.max_body_bytes,
            tls=tls,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if tls is None and not is_loopback(listen[0]):
        log.warning(
            "--listen %s:%d without TLS: every host that reaches this address can send requests; give "
            "--tls-cert-file, --tls-key-file and --client-ca-file, or listen on 127.0.0.1",
            *listen,
        )
    build_source: BuildSource = (
        partial(_file_source, inventory_file)
        if inventory_file
        else partial(_cluster_source, kubeconfig, context, lease, own_lease, pod_name)
    )

    def build_apps() -> Apps:
        # The worker process imports this; the one that watches over it stays small.
        from scheduler_ext.cli.serving_apps import serving_apps

        return serving_apps(config, build_source, tls.cert_file if tls else None, demo_folder)

    run_server(options, build_apps)


def _tls_files(cert_file: Path | None, key_file: Path | None, client_ca_file: Path | None) -> TlsFiles | None:
    """The files of TLS, or None without any. Raises click.UsageError when some are missing."""
    from scheduler_ext.server.server_options import TlsFiles

    flags = {"--tls-cert-file": cert_file, "--tls-key-file": key_file, "--client-ca-file": client_ca_file}
    missing = [flag for flag, file in flags.items() if file is None]
    if len(missing) == len(flags):
        return None
    if cert_file and key_file and client_ca_file:
        return TlsFiles(cert_file, key_file, client_ca_file)
    raise click.UsageError(
        f"missing {' and '.join(missing)}: TLS takes the server's certificate, its key, and the CA of the "
        f"clients, because without client certificates every client could ask; give all three or none"
    )


def _file_source(
    path: Path, extender: Extender, config: Configuration, _features: Serving
) -> InventorySource:
    """An inventory file, read before anything is served. Raises InventoryError."""
    from scheduler_ext.sources.file_source import InventorySource

    source = InventorySource(path, extender, config.resource_names())
    source.load()
    source.start()
    return source


def _cluster_source(
    kubeconfig: Path | None,
    context: str | None,
    lease: tuple[str, str] | None,
    own_lease: tuple[str, str] | None,
    pod_name: str,
    extender: Extender,
    config: Configuration,
    features: Serving,
) -> LiveInventory:
    """A cluster, watched from now on; ready when it has been listed. Raises ClusterError."""
    from scheduler_ext.cluster.client.transport import Transport
    from scheduler_ext.cluster.live import LiveInventory
    from scheduler_ext.cluster.own_lease import Election
    from scheduler_ext.cluster.scheduler_lease import Leadership

    transport = Transport.from_kubeconfig(kubeconfig, context) if kubeconfig else Transport.in_cluster()
    leader: BuildLeader | None = None
    if lease is not None:
        leader = partial(Leadership, namespace=lease[0], name=lease[1], pod=pod_name)
    elif own_lease is not None:
        # No other's, nor that of a former life of this pod.
        identity = f"{pod_name}_{uuid.uuid4()}"
        leader = partial(Election, namespace=own_lease[0], name=own_lease[1], identity=identity)
    live = LiveInventory(transport, extender, config, features, leader, pod_name)
    live.start()
    return live
