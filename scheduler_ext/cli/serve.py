"""`scheduler-ext serve`: the extender itself."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scheduler_ext.cli.inputs import STDIN, config_option
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
from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.waiting import Waiting
from scheduler_ext.extender.extender import Extender
from scheduler_ext.extender.heap import share_one_arena
from scheduler_ext.sources.file_source import InventorySource
from scheduler_ext.wire.config import Configuration

if TYPE_CHECKING:
    from scheduler_ext.cluster.live import BuildLeader, LiveInventory
    from scheduler_ext.server.server_options import TlsFiles

log = logging.getLogger(__name__)

BuildSource = Callable[[Extender, Configuration], "InventorySource | LiveInventory"]
"""Makes the source of an extender's nodes; runs in the worker process."""


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
@click.option("--inspect-listen", type=_LISTEN, default="127.0.0.1:8890", help="Loopback only.")
@click.option(
    "--tls-cert-file", type=FILE, help="Serve the API over TLS: its certificate, followed by intermediates."
)
@click.option("--tls-key-file", type=FILE, help="The key of that certificate.")
@click.option("--client-ca-file", type=FILE, help="CA of the required client certificates.")
@log_format_option
@click.option(
    "--past", type=FILE, hidden=True, help="Samples with which the page's history begins: the demo's."
)
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
    past: Path | None,
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
            read_timeout_s=config.duration_s("server.readTimeout"),
            write_timeout_s=config.duration_s("server.writeTimeout"),
            graceful_timeout_s=config.duration_s("server.gracefulTimeout"),
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
    run_server(options, lambda: _build_apps(config, build_source, tls.cert_file if tls else None, past))


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


def _file_source(path: Path, extender: Extender, config: Configuration) -> InventorySource:
    """An inventory file, read before anything is served. Raises InventoryError."""
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
    live = LiveInventory(transport, extender, config, leader, pod_name)
    live.start()
    return live


def _build_apps(
    config: Configuration,
    build_source: BuildSource,
    certificate_file: Path | None = None,
    past: Path | None = None,
) -> Any:
    """The three applications over one extender and its source; `past` is a JSON array of earlier samples.
    Raises InventoryError, ClusterError."""
    from scheduler_ext.server.app import api_app, health_app, inspect_app
    from scheduler_ext.server.explaining import Explaining
    from scheduler_ext.server.inspect_routes import explanations_blueprint, questions_blueprint
    from scheduler_ext.server.metrics.registry import Metrics
    from scheduler_ext.server.page.feed import PageFeed
    from scheduler_ext.server.page.pod_routes import pods_blueprint
    from scheduler_ext.server.page.routes import page_blueprint
    from scheduler_ext.server.queue_routes import queue_blueprint
    from scheduler_ext.server.runbook_routes import runbooks_blueprint
    from scheduler_ext.server.server_options import Apps
    from scheduler_ext.views.history import Sample
    from scheduler_ext.views.queue.queue_list import QueueView
    from scheduler_ext.views.queue.start_estimates import StartEstimates
    from scheduler_ext.whatif.schedulable import SchedulableReplicas

    share_one_arena()
    # Other threads decode for long stretches; waiting requests get the interpreter sooner this way.
    sys.setswitchinterval(0.0002)
    extender = Extender(config)
    source = build_source(extender, config)
    deadline_s = config.duration_s("server.decisionDeadline")
    explainer = Explainer(
        source, extender.record, config, extender.places, extender.new_nodes, source.notes_on
    )
    explaining = Explaining(explainer)
    waiting = Waiting(source, extender.record, explainer)
    queue = QueueView(source, waiting.lines, StartEstimates(source, config))
    longest = partial(waiting.longest, most=config.metrics.waiting_pods)
    workloads = partial(waiting.by_workload, config.metrics.waiting_pods)
    replicas = SchedulableReplicas(source, config)
    metrics = Metrics(
        source, config, waiting.reasons, certificate_file, longest, workloads, replicas.counts, source.plan
    )
    feed = PageFeed(
        source,
        extender.record,
        waiting.lines,
        config.resource_names(),
        config.memory.headroom_percent,
        config.idle_after_s(),
    )
    for earlier in json.loads(past.read_bytes()) if past is not None else ():
        feed.history.add(Sample(*earlier))
    extender.record.start()
    extender.blind_rejections.start()
    replicas.start()
    feed.start()

    def close() -> None:
        replicas.stop()
        feed.stop()
        source.stop()
        extender.record.stop(1.0)
        extender.blind_rejections.stop(1.0)

    return Apps(
        api=api_app(extender, source.binder, metrics, config.server.max_body_bytes, deadline_s),
        health=health_app(source, metrics),
        inspect=inspect_app(
            explanations_blueprint(explaining),
            questions_blueprint(source, config, explainer, waiting),
            queue_blueprint(queue),
            page_blueprint(feed, config),
            runbooks_blueprint(),
            pods_blueprint(source, explaining),
        ),
        close=close,
    )
