"""Kubeconfigs, merged as kubectl merges them: of an entry in several files the first counts. The official
client connects to a context. The files are merged here, because the client lets the last file choose the
context, and continues without credentials if a plugin fails."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from scheduler_ext.cluster.client.connection_errors import in_words, without_numbers
from scheduler_ext.core.errors import ClusterError
from scheduler_ext.wire.files import MAX_CONFIGURATION_BYTES, FileTooLargeError, UnansweredError, read_file

if TYPE_CHECKING:
    from kubernetes.client.configuration import Configuration

_LISTS = ("clusters", "users", "contexts")
_PLUGIN = "_load_from_exec_plugin"
Named = dict[str, tuple[dict[str, Any], Path]]


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """Files, and a context (None: the current one). Every method raises ClusterError naming the files."""

    paths: tuple[Path, ...]
    context: str | None = None

    def __str__(self) -> str:
        return ":".join(map(str, self.paths))

    def configuration(self) -> Configuration:
        """The client's configuration for the context; may run the program that gives the credentials."""
        # Imported here: the import takes longer than the shell completion of a name, which does not need it.
        from kubernetes.client.configuration import Configuration

        merged = self._merged()
        found = Configuration()
        with self._named():
            # A plugin, a certificate or the file system may raise any exception.
            _load(merged, self._chosen(merged), found)
        return found

    def namespace(self) -> str:
        """The namespace of the context, "default" if it has none."""
        merged = self._merged()
        entry, _ = merged.contexts[self._chosen(merged)]
        return str((entry.get("context") or {}).get("namespace") or "default")

    def contexts(self) -> list[str]:
        """The names of all contexts."""
        return list(self._merged().contexts)

    def _chosen(self, merged: _Merged) -> str:
        chosen = self.context or merged.current
        if not chosen:
            raise ClusterError(f"kubeconfig {self}: no current-context; give --context")
        if chosen not in merged.contexts:
            known = ", ".join(merged.contexts)[:200] or "none"
            raise ClusterError(f"kubeconfig {self}: no context {chosen!r} in it; there are: {known}")
        return chosen

    def _merged(self) -> _Merged:
        merged = _Merged()
        with self._named():
            for path in self.paths:
                _merge(merged, path)
        return merged

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except ClusterError:
            raise
        except Exception as error:
            raise ClusterError(f"kubeconfig {self}: {in_words(error)}") from None


@dataclass(slots=True)
class _Merged:
    """Several files as one; each entry has the file that its relative paths start from."""

    current: str = ""
    clusters: Named = field(default_factory=dict)
    users: Named = field(default_factory=dict)
    contexts: Named = field(default_factory=dict)


def _merge(merged: _Merged, path: Path) -> None:
    try:
        value = yaml.safe_load(read_file(path, MAX_CONFIGURATION_BYTES))
    except (UnansweredError, FileTooLargeError) as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        # The error's own text quotes the line, which may hold a token.
        mark = getattr(error, "problem_mark", None)
        raise ValueError(f"{path}: no YAML" + (f", line {mark.line + 1}" if mark else "")) from None
    if value is None:
        return
    if not isinstance(value, dict):
        raise ValueError(f"{path}: no kubeconfig")
    current = value.get("current-context") or ""
    if not isinstance(current, str):
        raise ValueError(f"{path}: current-context: no name")
    merged.current = merged.current or current
    for name in _LISTS:
        known: Named = getattr(merged, name)
        for entry in value.get(name) or ():
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                raise ValueError(f"{path}: {name}: an entry without a name")
            if not isinstance(entry.get(name.removesuffix("s")) or {}, dict):
                raise ValueError(f"{path}: {name}: {entry['name'][:80]!r} is no mapping")
            known.setdefault(entry["name"], (entry, path))


def _load(merged: _Merged, context: str, into: Configuration) -> None:
    """Fill in the client's configuration for a context."""
    from kubernetes.config import ConfigException
    from kubernetes.config.kube_config import ConfigNode, KubeConfigLoader

    first = str(next((path for _, path in merged.contexts.values()), ""))
    lists = {
        name: [ConfigNode(key, entry, str(path)) for key, (entry, path) in getattr(merged, name).items()]  # type: ignore[no-untyped-call]
        for name in _LISTS
    }
    config = ConfigNode("kubeconfig", {"current-context": context, **lists}, first)  # type: ignore[no-untyped-call]
    # None as its base: relative paths start from the file that each entry is in.
    loader = KubeConfigLoader(config, context, config_base_path=None)  # type: ignore[no-untyped-call]
    run_plugin = getattr(loader, _PLUGIN)

    def run_plugin_or_raise() -> Any:
        with _logged_at_root() as said:
            done = run_plugin()
        user = loader._user
        if not done and user is not None and "exec" in user:
            command = user.value["exec"].get("command")
            # On a terminal the program prints the problem itself, and the client fails on the missing output.
            why = "; ".join(each for each in said if "NoneType" not in each) or "it failed, as it says above"
            # The exception that the client raises for credentials, also when it renews them.
            raise ConfigException(f"no credentials of {command}: {why}")
        return done

    # The client's own method logs the problem, and continues without credentials.
    setattr(loader, _PLUGIN, run_plugin_or_raise)
    loader.load_and_set(into)  # type: ignore[no-untyped-call]


@contextmanager
def _logged_at_root() -> Iterator[list[str]]:
    """Collect the records that this thread logs at the root, and keep them from other handlers."""
    said: list[str] = []
    mine = threading.get_ident()

    def keep(record: logging.LogRecord) -> bool:
        if record.thread != mine:
            return True
        said.append(without_numbers(record.getMessage()))
        return False

    root = logging.getLogger()
    # If there were no handler, the first record would add one.
    silent = logging.NullHandler()
    root.addFilter(keep)
    root.addHandler(silent)
    try:
        yield said
    finally:
        root.removeHandler(silent)
        root.removeFilter(keep)
