"""``scheduler-ext serve``: the extender itself."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scheduler_ext.cli.options import config_option, inventory_option, read_config
from scheduler_ext.extender.service import Extender
from scheduler_ext.extender.source import InventorySource
from scheduler_ext.wire.config import Configuration, duration_s

if TYPE_CHECKING:
    from scheduler_ext.server.server_options import TlsFiles

log = logging.getLogger(__name__)


class Listen(click.ParamType[tuple[str, int]]):
    """HOST:PORT, [V6]:PORT; port 0 is any free one."""

    name = "host:port"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        host, colon, port = str(value).rpartition(":")
        if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535:
            self.fail(f"{value!r} is no HOST:PORT such as 127.0.0.1:8888", param, ctx)
        return host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port)


@click.command()
@config_option
@inventory_option
@click.option(
    "--listen", type=Listen(), default="127.0.0.1:8888", show_default=True, help="kube-scheduler's verbs."
)
@click.option(
    "--health-listen", type=Listen(), default="127.0.0.1:8889", show_default=True, help="Probes and metrics."
)
@click.option(
    "--inspect-listen", type=Listen(), default="127.0.0.1:8890", show_default=True, help="Loopback only."
)
@click.option(
    "--tls-cert-file",
    type=click.Path(path_type=Path),
    help="Serve the API over TLS: the certificate, with its intermediates behind it.",
)
@click.option("--tls-key-file", type=click.Path(path_type=Path), help="The key of that certificate.")
@click.option(
    "--client-ca-file",
    type=click.Path(path_type=Path),
    help="Who may ask: clients with a certificate signed by one of these.",
)
@click.option("--log-format", type=click.Choice(["json", "text"]), default="text", show_default=True)
@click.option("--workers", type=int, hidden=True, help="Anything but 1 is refused.")
def serve(
    config_file: Path | None,
    inventory_file: Path,
    listen: tuple[str, int],
    health_listen: tuple[str, int],
    inspect_listen: tuple[str, int],
    tls_cert_file: Path | None,
    tls_key_file: Path | None,
    client_ca_file: Path | None,
    log_format: str,
    workers: int | None,
) -> None:
    """Answer kube-scheduler's filter and prioritize calls until told to stop."""
    # Here, because gunicorn reads its environment when imported, and the other commands need no server.
    from scheduler_ext.server.single_worker import refuse_workers

    refusal = refuse_workers(os.environ, workers)
    if refusal is not None:
        raise click.UsageError(refusal)
    from scheduler_ext.server.gunicorn_server import run_server
    from scheduler_ext.server.logs import configure_logs
    from scheduler_ext.server.server_options import ServerOptions, is_loopback

    tls = tls_files(tls_cert_file, tls_key_file, client_ca_file)
    configure_logs(log_format)
    config = read_config(config_file)
    try:
        options = ServerOptions(
            api_listen=listen,
            health_listen=health_listen,
            inspect_listen=inspect_listen,
            read_timeout_s=duration_s("server.readTimeout", config.server.read_timeout, 0.1, 300),
            write_timeout_s=duration_s("server.writeTimeout", config.server.write_timeout, 0.1, 300),
            graceful_timeout_s=duration_s("server.gracefulTimeout", config.server.graceful_timeout, 0.5, 300),
            max_body_bytes=config.server.max_body_bytes,
            tls=tls,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if tls is None and not is_loopback(listen[0]):
        log.warning(
            "--listen %s:%d without TLS: anybody who reaches this address can ask what fits where; give "
            "--tls-cert-file, --tls-key-file and --client-ca-file, or listen on 127.0.0.1",
            *listen,
        )
    run_server(options, lambda: build_apps(config, inventory_file))


def tls_files(cert_file: Path | None, key_file: Path | None, client_ca_file: Path | None) -> TlsFiles | None:
    """The files of TLS, or None without any. Raises click.UsageError when some are missing."""
    from scheduler_ext.server.server_options import TlsFiles

    if cert_file and key_file and client_ca_file:
        return TlsFiles(cert_file, key_file, client_ca_file)
    flags = {"--tls-cert-file": cert_file, "--tls-key-file": key_file, "--client-ca-file": client_ca_file}
    missing = [flag for flag, file in flags.items() if file is None]
    if len(missing) == len(flags):
        return None
    raise click.UsageError(
        f"missing {' and '.join(missing)}: TLS takes the server's certificate, its key, and the CA of the "
        f"clients, because without client certificates anybody could ask; give all three or none"
    )


def build_apps(config: Configuration, inventory_file: Path) -> Any:
    """The three applications over one extender, its inventory read. Raises InventoryError."""
    from scheduler_ext.server.app import api_app, health_app, inspect_app
    from scheduler_ext.server.metrics import Metrics
    from scheduler_ext.server.server_options import Apps

    # A reload decodes for long stretches; waiting requests get the interpreter sooner this way.
    sys.setswitchinterval(0.0005)
    extender = Extender(config)
    source = InventorySource(inventory_file, extender, config.resource_names())
    source.load()
    source.start()
    metrics = Metrics(source)
    deadline_s = duration_s("server.decisionDeadline", config.server.decision_deadline, 0.01, 60)
    return Apps(
        api=api_app(extender, metrics, config.server.max_body_bytes, deadline_s),
        health=health_app(source, metrics),
        inspect=inspect_app(),
        close=source.stop,
    )
