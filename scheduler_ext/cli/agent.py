"""``scheduler-ext agent``: reports one node's GPUs as its GPUNode."""

from __future__ import annotations

import logging
import os
import signal
import uuid
from collections.abc import Callable, Container
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from scheduler_ext.cli.options import (
    Duration,
    check_context,
    context_option,
    log_format_option,
)
from scheduler_ext.cli.output import print_structured
from scheduler_ext.core.errors import SchedulerExtError

if TYPE_CHECKING:
    from scheduler_ext.agent.alive import Pulse
    from scheduler_ext.agent.observer import Observer
    from scheduler_ext.cluster.client.transport import Transport

log = logging.getLogger(__name__)

# What is under way when the agent is told to end has so long; no answer that is still missing then is worth
# more waiting.
_END_S = 2.0


class AgentError(SchedulerExtError):
    """What the agent was told cannot be done; the text says why."""


@click.command()
@click.option(
    "--node-name",
    "node_names",
    multiple=True,
    envvar="NODE_NAME",
    help="The Node to report on (default: $NODE_NAME). With --fake several, or none for all of the file.",
)
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="The cluster of this kubeconfig, to report to."
)
@context_option
@click.option("--in-cluster", is_flag=True, help="The cluster this pod runs in, by its ServiceAccount.")
@click.option(
    "--once",
    is_flag=True,
    help="Print the GPUNode and end; nothing is written. Without a cluster the Node's labels are not known.",
)
@click.option(
    "--fake",
    type=click.Path(path_type=Path),
    help="Report what this file of GPUNodes says instead of reading GPUs; read again when it changes.",
)
@click.option(
    "--interval", type=Duration(0.05, 60), default="5s", show_default=True, help="Between two looks."
)
@click.option(
    "--recover-after",
    type=Duration(0, 86400),
    default="5m",
    show_default=True,
    help="How long a GPU has to be without an error before it counts as healthy, where silence ends it.",
)
@click.option(
    "--pod-resources",
    type=click.Path(path_type=Path),
    default="/var/lib/kubelet/pod-resources/kubelet.sock",
    show_default=True,
    help="kubelet's socket; where there is none, nobody tells which pod holds which GPU.",
)
@click.option(
    "--nvml-library",
    type=click.Path(path_type=Path),
    help="libnvidia-ml.so.1, if it is not where it usually is.",
)
@click.option(
    "--stuck-after",
    type=Duration(1, 3600),
    default="2m",
    show_default=True,
    help="How long one call of the driver may take before the agent ends, to be started again.",
)
@click.option(
    "--heartbeat",
    type=click.Path(),
    help="A file to write the time into by which the loop goes on, for a liveness probe.",
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
    stuck_after: float,
    heartbeat: str | None,
    log_format: str,
) -> None:
    """Report the GPUs of this node as its GPUNode.

    One process runs on each GPU node, and writes the GPUNode of that node only.
    """
    from scheduler_ext.logs import configure_logs

    _check_usage(node_names, kubeconfig, in_cluster, once, fake)
    check_context(kubeconfig, context)
    configure_logs(log_format)
    if once:
        if fake is not None:
            _print_fake(fake, node_names)
            return
        transport = _transport(kubeconfig, context) if kubeconfig or in_cluster else None
        _print_once(_observer(nvml_library, pod_resources, recover_after), node_names[0], transport)
        return
    status = _run(
        _transport(kubeconfig, context),
        node_names,
        fake,
        interval,
        lambda beat: _observer(nvml_library, pod_resources, recover_after, beat),
        _pulse(stuck_after, heartbeat),
    )
    # Python takes our handlers away while it ends, and the signal would end it with another status.
    signal.setitimer(signal.ITIMER_REAL, 0)
    raise SystemExit(status)


def _pulse(stuck_after_s: float, file: str | None) -> Pulse:
    from scheduler_ext.agent.alive import Pulse

    try:
        return Pulse(stuck_after_s, file)
    except OSError as error:
        raise AgentError(f"--heartbeat: {file} cannot be written: {error.strerror}") from None


def _check_usage(
    names: tuple[str, ...], kubeconfig: Path | None, in_cluster: bool, once: bool, fake: Path | None
) -> None:
    from scheduler_ext.agent.kubernetes_names import NODE_NAME

    if fake is None and len(names) != 1:
        raise click.UsageError("--node-name: give the one Node whose GPUs these are, or set NODE_NAME")
    for name in names:
        if not NODE_NAME.fullmatch(name):
            raise click.UsageError(f"--node-name: {name!r} is not a valid Node name")
    if kubeconfig and in_cluster:
        raise click.UsageError("--kubeconfig and --in-cluster are two clusters: give one of them")
    if once and fake is not None and (kubeconfig or in_cluster):
        raise click.UsageError("--once prints what the file of --fake says: no cluster is asked for that")
    if not once and not kubeconfig and not in_cluster:
        raise click.UsageError("nowhere to report to: give --kubeconfig or --in-cluster, or --once to print")


def _run(
    transport: Transport,
    names: tuple[str, ...],
    fake: Path | None,
    interval_s: float,
    observer: Callable[[Callable[[], None]], Observer],
    pulse: Pulse,
) -> int:
    from scheduler_ext.agent.loop import boot_id, run_agent, run_fake
    from scheduler_ext.agent.reporter import Reporter

    stopped = Event()
    _end_on_signals(stopped)
    if fake is None:
        reporter = Reporter(transport, names[0], boot_id())
        return run_agent(observer(pulse.beat), reporter, interval_s, stopped, pulse=pulse)
    from scheduler_ext.agent.fake import FakeReadings

    # Machines that do not exist have booted when this process began.
    boot = str(uuid.uuid4())
    readings = FakeReadings(fake)
    _check_names(fake, names, readings.statuses())
    return run_fake(readings, names, lambda name: Reporter(transport, name, boot), interval_s, stopped, pulse)


def _end_on_signals(stopped: Event) -> None:
    def end(*_: object) -> None:
        stopped.set()
        signal.setitimer(signal.ITIMER_REAL, _END_S)

    # Nothing is lost that way: what was written is whole, and the next agent begins anew.
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


def _transport(kubeconfig: Path | None, context: str | None) -> Transport:
    from scheduler_ext.cluster.client.transport import Transport

    return Transport.from_kubeconfig(kubeconfig, context) if kubeconfig else Transport.in_cluster()


def _observer(
    nvml_library: Path | None,
    pod_resources: Path,
    recover_after_s: float,
    beat: Callable[[], None] = lambda: None,
) -> Observer:
    try:
        from scheduler_ext.agent.gpu_health import Health
        from scheduler_ext.agent.nvml_source import NvmlSource
        from scheduler_ext.agent.observer import Observer
    except ImportError as error:
        raise AgentError(
            f"the agent needs {error.name}, which is not installed: pip install 'scheduler-ext[agent]'"
        ) from None
    return Observer(NvmlSource(nvml_library, beat=beat), pod_resources, Health(recover_after_s))


def _print_once(observer: Observer, name: str, transport: Transport | None) -> None:
    """As it would be written; without a cluster, what can be seen on the node."""
    from scheduler_ext.agent.loop import boot_id
    from scheduler_ext.agent.reporter import Reporter
    from scheduler_ext.wire.gpunode import plain

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
        observer.close()


def _check_names(path: Path, names: tuple[str, ...], known: Container[str]) -> None:
    for name in names:
        if name not in known:
            raise AgentError(f"{path}: no GPUNode {name} in it")


def _print_fake(path: Path, names: tuple[str, ...]) -> None:
    from scheduler_ext.agent.fake import FakeReadings
    from scheduler_ext.wire.gpunode import plain

    statuses = FakeReadings(path).statuses()
    _check_names(path, names, statuses)
    for number, name in enumerate(names or statuses):
        if number:
            click.echo("---")
        print_structured(plain(name, statuses[name]), "yaml")
