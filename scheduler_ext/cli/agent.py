"""`scheduler-ext agent`: reports the GPUs of a node as its GPUNode."""

from __future__ import annotations

import logging
import os
import signal
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import click

from scheduler_ext.agent.alive import Pulse
from scheduler_ext.agent.fitting import NODE_NAME
from scheduler_ext.agent.loop import boot_id, run_agent
from scheduler_ext.cli.options import (
    FILE,
    check_context,
    context_option,
    duration,
    in_cluster_option_with,
    kubeconfig_option_with,
    log_format_option,
)
from scheduler_ext.cli.output import print_structured
from scheduler_ext.core.errors import SchedulerExtError
from scheduler_ext.wire.gpunode import plain

if TYPE_CHECKING:
    from scheduler_ext.agent.observer import Observer
    from scheduler_ext.cluster.client.transport import Transport

log = logging.getLogger(__name__)

# The limit for calls in flight after a signal to end; a later answer is not worth the wait.
_END_S = 2.0


class AgentError(SchedulerExtError):
    """Options that the agent cannot follow."""


@click.command()
@click.option(
    "--node-name",
    "node_names",
    multiple=True,
    envvar="NODE_NAME",
    help="Node to report (default: $NODE_NAME). --fake takes several, or none for all nodes of its file.",
)
@kubeconfig_option_with(help="Kubeconfig of the cluster that gets the reports.")
@context_option
@in_cluster_option_with(help="Report to the cluster of this pod, with its ServiceAccount.")
@click.option(
    "--once",
    is_flag=True,
    help="Print the GPUNode and exit; nothing is written. Without a cluster, Node labels are unknown.",
)
@click.option(
    "--fake",
    type=FILE,
    help="Report the GPUNodes of this file instead of real GPUs; read again when it changes.",
)
@click.option("--interval", type=duration(0.05, 60), default="5s", help="Time between two readings.")
@click.option(
    "--recover-after",
    type=duration(0, 86400),
    default="5m",
    help="Time without a new error after which a GPU is healthy again, unless it needs a reset or a reboot.",
)
@click.option(
    "--pod-resources",
    type=FILE,
    default="/var/lib/kubelet/pod-resources/kubelet.sock",
    help="PodResources socket of the kubelet; without it, the GPU of each pod is unknown.",
)
@click.option(
    "--nvml-library", type=FILE, help="Path of libnvidia-ml.so.1 (default: the library search path)."
)
@click.option(
    "--dcgm-exporter",
    metavar="URL",
    help="Metrics of this node's DCGM exporter, for samples of GPUs and of MIG instances, such as "
    "http://10.0.0.7:9400/metrics (default: NVML's samples, and none of MIG instances).",
)
@click.option(
    "--stuck-after",
    type=duration(1, 3600),
    default="2m",
    help="Limit for one driver call; then the agent exits, to be restarted.",
)
@click.option(
    "--heartbeat",
    type=click.Path(),
    help="File for the time at which the next heartbeat is due; a liveness probe reads it.",
)
@log_format_option
def agent(
    node_names: tuple[str, ...],
    kubeconfig: Path | None,
    context: str | None,
    in_cluster: bool,
    once: bool,
    fake: Path | None,
    interval: float,
    recover_after: float,
    pod_resources: Path,
    nvml_library: Path | None,
    dcgm_exporter: str | None,
    stuck_after: float,
    heartbeat: str | None,
    log_format: str,
) -> None:
    """Report the GPUs of this node as its GPUNode.

    One process runs on each GPU node and writes only the GPUNode of that node.
    """
    from scheduler_ext.logs import configure_logs

    _check_usage(node_names, kubeconfig, in_cluster, once, fake)
    if dcgm_exporter is not None and not dcgm_exporter.startswith(("http://", "https://")):
        raise click.UsageError(f"--dcgm-exporter: {dcgm_exporter!r} is no address; it begins with http://")
    check_context(kubeconfig, context)
    configure_logs(log_format)
    transport: Transport | None = None
    if kubeconfig or in_cluster:
        from scheduler_ext.cluster.client.transport import Transport

        transport = Transport.from_kubeconfig(kubeconfig, context) if kubeconfig else Transport.in_cluster()
    observer = partial(_observer, nvml_library, pod_resources, recover_after, dcgm_exporter)
    if once:
        if fake is None:
            _print_once(observer(), node_names[0], transport)
            return
        from scheduler_ext.agent.fake import FakeReadings

        for number, (name, status) in enumerate(FakeReadings(fake, node_names).statuses().items()):
            if number:
                click.echo("---")
            print_structured(plain(name, status), "yaml")
        return
    assert transport is not None
    try:
        pulse = Pulse(stuck_after, heartbeat)
    except OSError as error:
        raise AgentError(f"--heartbeat: {heartbeat} cannot be written: {error.strerror}") from None
    exit_status = _run(transport, node_names, fake, interval, observer, pulse)
    # Python removes signal handlers while it exits; a pending alarm would change the exit status.
    signal.setitimer(signal.ITIMER_REAL, 0)
    raise SystemExit(exit_status)


def _check_usage(
    names: tuple[str, ...], kubeconfig: Path | None, in_cluster: bool, once: bool, fake: Path | None
) -> None:
    if fake is None and len(names) != 1:
        raise click.UsageError("--node-name: give the one Node whose GPUs these are, or set NODE_NAME")
    for name in names:
        if not NODE_NAME.fullmatch(name):
            raise click.UsageError(f"--node-name: {name!r} is not a valid Node name")
    if kubeconfig and in_cluster:
        raise click.UsageError("--kubeconfig and --in-cluster are two clusters: give one of them")
    if once and fake is not None and (kubeconfig or in_cluster):
        raise click.UsageError("--once with --fake prints the file; leave out --kubeconfig and --in-cluster")
    if not once and not kubeconfig and not in_cluster:
        raise click.UsageError("nowhere to report to: give --kubeconfig or --in-cluster, or --once to print")


def _run(
    transport: Transport,
    names: tuple[str, ...],
    fake: Path | None,
    interval_s: float,
    observer: Callable[..., Observer],
    pulse: Pulse,
) -> int:
    from scheduler_ext.agent.reporter import Reporter

    stopped = stopped_by_signals()
    if fake is None:
        reporter = Reporter(transport, names[0], boot_id())
        return run_agent(observer(beat=pulse.beat), reporter, interval_s, stopped, pulse=pulse)
    from scheduler_ext.agent.fake import FakeReadings, run_fake

    # Fake machines booted at the start of this process.
    boot = str(uuid.uuid4())
    readings = FakeReadings(fake, names)
    return run_fake(readings, lambda name: Reporter(transport, name, boot), interval_s, stopped, pulse)


def stopped_by_signals() -> Event:
    """An event that SIGTERM and SIGINT set; if the process has not ended soon after that, it exits with 0."""
    stopped = Event()

    def end(*_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, _END_S)
        # A handler runs inside whatever the main thread does. If that is `stopped.wait`, the main thread may
        # hold the event's lock, which `set` needs, too.
        Thread(target=stopped.set, daemon=True).start()

    # No report is lost: written reports are complete, and the next agent reads everything again.
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    return stopped


def _observer(
    nvml_library: Path | None,
    pod_resources: Path,
    recover_after_s: float,
    dcgm_exporter: str | None,
    beat: Callable[[], None] = lambda: None,
) -> Observer:
    try:
        from scheduler_ext.agent.gpu_health import GpuHealth
        from scheduler_ext.agent.nvml_source import NvmlSource
        from scheduler_ext.agent.observer import Observer
    except ImportError as error:
        raise AgentError(
            f"the agent needs {error.name}, which is not installed: pip install 'scheduler-ext[agent]'"
        ) from None
    dcgm = None
    if dcgm_exporter is not None:
        from scheduler_ext.agent.dcgm import DcgmExporter

        dcgm = DcgmExporter(dcgm_exporter)
    return Observer(NvmlSource(nvml_library, beat=beat), pod_resources, GpuHealth(recover_after_s), dcgm=dcgm)


def _print_once(observer: Observer, name: str, transport: Transport | None) -> None:
    """The GPUNode as it would be written; without a cluster, from the node alone."""
    from scheduler_ext.agent.reporter import Reporter

    try:
        if transport is None:
            status = observer.observe({})
        else:
            reporter = Reporter(transport, name, boot_id())
            labels = reporter.look(observer.remember).labels
            status = reporter.numbered(observer.observe(labels, reporter.repaired))
        if observer.problem is not None:
            raise AgentError(f"no GPU can be read: {observer.problem}")
        print_structured(plain(name, status), "yaml")
    finally:
        observer.source.close()
