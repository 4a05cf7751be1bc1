"""The inputs of commands that ask about a cluster: pods, and the cluster, from a file or live."""

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from scheduler_ext.cli.files import STDIN, config_option, naming, read_input
from scheduler_ext.cli.kubeconfigs import kubeconfig_of, transport_of
from scheduler_ext.cli.options import (
    FILE_OR_STDIN,
    Decorator,
    bundled,
    context_option,
    inventory_option,
    kubeconfig_option_with,
    namespace_option,
)
from scheduler_ext.cli.output import show
from scheduler_ext.cluster.client.kubeconfig import Kubeconfig
from scheduler_ext.core.dra.published import Claim
from scheduler_ext.core.errors import (
    ClusterError,
    InventoryError,
    PodError,
)
from scheduler_ext.explain.ineffective import unserved
from scheduler_ext.explain.quotas import quota_notes
from scheduler_ext.sources.clusterstate import ClusterState, file_state, state_of, written_at
from scheduler_ext.wire import kube
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.manifests import Manifest, in_namespace
from scheduler_ext.wire.objects import read_manifests, read_objects

# Names in one line of an error.
_SHOWN_NAMES = 10


def read_pod_list(filename: Path, namespace: str, *, only: bool) -> list[Manifest]:
    """The pods of a file or of standard input; pods without a namespace are in `namespace`. With `only`,
    pods of other namespaces are an error. Raises InventoryError naming the file."""
    with naming(filename, InventoryError):
        return in_namespace(read_manifests(read_input(filename)), namespace, only=only)


def read_pod(filename: Path, namespace: str, *, only: bool, name: str | None = None) -> Manifest:
    """The only pod of a file, or the pod with this name; otherwise as `read_pod_list`. Raises
    InventoryError naming the file."""
    manifests = read_pod_list(filename, namespace, only=only)
    chosen = manifests if name is None else [each for each in manifests if each.name == name]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(each.name for each in manifests[:_SHOWN_NAMES])
    more = f" and {len(manifests) - _SHOWN_NAMES} more" if manifests[_SHOWN_NAMES:] else ""
    found = f"{len(chosen)} pods in it" if name is None else f"{len(chosen) or 'no'} pods {name!r:.80} in it"
    raise InventoryError(f"{filename}: {found}; choose one: {names}{more}")


@dataclass(frozen=True, slots=True)
class ClusterInput:
    """The cluster of a command: an inventory file or a kubeconfig; the other is None."""

    inventory: Path | None
    kubeconfig: Kubeconfig | None

    def namespace(self, chosen: str | None) -> str:
        """The chosen namespace, or kubectl's default for this cluster. Raises ClusterError."""
        if chosen is not None:
            return chosen
        return self.kubeconfig.namespace() if self.kubeconfig is not None else "default"

    def state(
        self,
        config: Configuration,
        *,
        with_objects: bool = False,
        with_waiting: bool = False,
        with_controllers: bool = False,
        with_quotas: bool = False,
        claims: Iterable[Claim] = (),
    ) -> ClusterState:
        """The cluster, on request with its objects, also `with_waiting` pods and budgets, with the
        controllers of pods with GPUs, or with quotas, and with more `claims` that pods ask through. Raises
        InventoryError, ClusterError."""
        if self.inventory is not None:
            resources = config.resource_names()
            if str(self.inventory) != STDIN:
                return file_state(self.inventory, resources, claims=claims)
            with naming("standard input", InventoryError):
                objects = read_objects(read_input(self.inventory))
                return state_of(objects, "standard input", resources, claims=claims)
        assert self.kubeconfig is not None
        from scheduler_ext.cluster.one_shot import cluster_state

        with closing(transport_of(self.kubeconfig)) as transport:
            try:
                state = cluster_state(
                    transport,
                    str(self.kubeconfig),
                    config,
                    with_objects=with_objects,
                    with_waiting=with_waiting,
                    with_controllers=with_controllers,
                    with_quotas=with_quotas,
                    claims=claims,
                )
            except ClusterError as error:
                raise ClusterError(f"kubeconfig {self.kubeconfig}: {error}") from None
        for problem in state.problems.values():
            show(f"warning: {problem}", err=True)
        return state

    def moment(self, state: ClusterState) -> float:
        """Now, in seconds of wall time; of a file, when the newest report in it was written, because the
        times of a saved cluster end there."""
        saved_at = written_at(state.objects) if self.inventory is not None else 0.0
        return saved_at or time.time()


def source_options(flag: str = "--inventory", file_option: Decorator = inventory_option) -> Decorator:
    """Options for the named cluster, or kubectl's own, as `source`; `flag` is the option for the file.
    Raises click.UsageError; ClusterError if $KUBECONFIG names a missing file."""

    def source_of(inventory_file: Path | None, kubeconfig: Path | None, context: str | None) -> ClusterInput:
        if inventory_file is None:
            missing = f"nothing to read from: give one of {flag}, --kubeconfig, or set KUBECONFIG"
            return ClusterInput(None, kubeconfig_of(kubeconfig, context, missing))
        if kubeconfig is not None:
            raise click.UsageError(f"{flag} and --kubeconfig are too many: give one of {flag}, --kubeconfig")
        if context is not None:
            raise click.UsageError("--context: an inventory file has no contexts; give it with a kubeconfig")
        return ClusterInput(inventory_file, None)

    return bundled(
        source_of,
        "source",
        file_option,
        kubeconfig_option_with(
            help="Kubeconfig of a live cluster, read once (default: $KUBECONFIG, then ~/.kube/config)."
        ),
        context_option,
    )


@dataclass(frozen=True, slots=True)
class OnePod:
    """One pod of a file and the cluster it is compared with, as given by `one_pod_options`."""

    filename: Path
    pod_name: str | None
    namespace: str | None
    source: ClusterInput
    config: Configuration

    def answer(
        self, question: Callable[[kube.Pod, ClusterState, Configuration], dict[str, Any]]
    ) -> dict[str, Any]:
        """The answer to a question, with the notes on the pod. Raises SchedulerExtError naming the file."""
        namespace, only = self.source.namespace(self.namespace), self.namespace is not None
        given = read_pod(self.filename, namespace, only=only, name=self.pod_name)
        state = self.source.state(self.config, with_objects=True, with_quotas=True, claims=given.claims)
        try:
            with naming(state.source, InventoryError):
                answer = question(given.pod, state, self.config)
        except PodError as error:
            raise PodError(f"{self.filename}: {error}") from None
        # Of a capacity, the copies that the nodes would take.
        copies = max(given.copies or 1, answer.get("total") or 0)
        answer["warnings"][:0] = given.notes()
        answer["notes"] = [
            *unserved(given.pod, self.config),
            *quota_notes([(given.pod, copies)], state, given.quotas, given.claims),
        ]
        return answer


one_pod_options = bundled(
    OnePod,
    "asked",
    click.option(
        "-f",
        "--filename",
        type=FILE_OR_STDIN,
        required=True,
        help="File with a Pod or a workload with a pod template; - reads standard input.",
    ),
    click.option("--pod", "pod_name", help="Name of the pod, if the file has several."),
    namespace_option,
    source_options(),
    config_option,
)
