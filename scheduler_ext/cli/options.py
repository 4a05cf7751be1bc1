"""Options that several commands share, each written once."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from scheduler_ext.cli.kubeconfigs import complete_contexts, complete_namespaces
from scheduler_ext.core.errors import ConfigError, SchedulerExtError
from scheduler_ext.wire.times import duration_s

_Value = TypeVar("_Value")
Command = TypeVar("Command", bound=Callable[..., Any] | click.Command)
Decorator = Callable[[Callable[..., None]], Callable[..., None]]

FILE = click.Path(path_type=Path)
FILE_OR_STDIN = click.Path(path_type=Path, allow_dash=True)


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one; help shows them in this order."""

    def all_of_them(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return all_of_them


def bundled(build: Callable[..., Any], parameter: str, *options: Decorator) -> Decorator:
    """Options whose values reach the command as one `parameter`: `build` of all of them, by name."""
    names = inspect.signature(build).parameters

    def bundle(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_bundle(*args: Any, **values: Any) -> None:
            built = build(**{name: values.pop(name) for name in names})
            command(*args, **{parameter: built}, **values)

        return together(*options)(with_bundle)

    return bundle


kubeconfig_option_with = functools.partial(click.option, "--kubeconfig", type=FILE)
INVENTORY = "GPUNode, Node and Pod objects, as printed by `kubectl get gpunodes,nodes,pods -A -o yaml`"
inventory_option_with = functools.partial(click.option, "--inventory", "inventory_file", type=FILE_OR_STDIN)
inventory_option = inventory_option_with(help=f"File of {INVENTORY}; - reads standard input.")
in_cluster_option_with = functools.partial(click.option, "--in-cluster", is_flag=True)
config_option_with = functools.partial(click.option, "--config", type=FILE)
out_option_with = functools.partial(click.option, "--out", type=FILE)
log_format_option = click.option(
    "--log-format", type=click.Choice(["json", "text"]), default="text", help="Format of the log on stderr."
)
context_option = click.option(
    "--context", shell_complete=complete_contexts, help="Kubeconfig context (default: current-context)."
)
output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "name", "json", "yaml"]),
    default="table",
    help="Form of the output: wide has more columns or rows, one per line; name has names only.",
)
_namespace = functools.partial(click.option, "-n", "--namespace", shell_complete=complete_namespaces)
_all_namespaces = functools.partial(click.option, "-A", "--all-namespaces", is_flag=True)
namespace_option = _namespace(help="Namespace (default: the namespace of the context).")
some_namespace_option = _namespace(help="Only this namespace (default: all).")
all_namespaces_option = _all_namespaces(help="All namespaces; overrides -n.")

# kubectl accepts both for objects without a namespace, and so do its users.
_NO_NAMESPACE = "Accepted as by kubectl and ignored: nodes have no namespace."
without_namespace_options = together(
    _namespace(expose_value=False, help=_NO_NAMESPACE),
    _all_namespaces(expose_value=False, help=_NO_NAMESPACE),
)


class Parsed(click.ParamType[_Value]):
    """An option's text as a function reads it, which raises SchedulerExtError."""

    def __init__(self, name: str, read: Callable[[str], _Value]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> _Value:
        try:
            return self._read(value) if isinstance(value, str) else value
        except SchedulerExtError as error:
            self.fail(str(error).removeprefix(f"{self.name}: "), param, ctx)


def _namespaced_name(text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise ConfigError(f"{text!r} is no NAMESPACE/NAME such as gpu-scheduler/gpu-scheduler")
    return namespace, name


NAMESPACED_NAME = Parsed("namespace/name", _namespaced_name)


def duration(least_s: float, most_s: float) -> Parsed[float]:
    """A duration such as 5s or 2m30s, in seconds."""
    return Parsed("duration", lambda text: duration_s("duration", text, least_s, most_s))


def check_context(kubeconfig: Path | None, context: str | None) -> None:
    """Raises click.UsageError for a context without a kubeconfig."""
    if context is not None and kubeconfig is None:
        raise click.UsageError("--context: names a context of a kubeconfig; give --kubeconfig too")
