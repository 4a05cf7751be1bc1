"""`scheduler-ext defrag`: the fewest moves that let waiting pods in, and their execution."""

import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import click

from scheduler_ext.cli.explain import WOULD_NOT_FIT
from scheduler_ext.cli.files import config_option, naming
from scheduler_ext.cli.inputs import ClusterInput, read_pod_list, source_options
from scheduler_ext.cli.kubeconfigs import transport_of
from scheduler_ext.cli.options import FILE_OR_STDIN, bundled, duration, namespace_option, output_option
from scheduler_ext.cli.output import Columns, print_items, print_notes, print_output, show
from scheduler_ext.core.errors import ClusterError, InventoryError, PodError
from scheduler_ext.features.defrag.executor import Executor
from scheduler_ext.features.defrag.movable import Rules, held_devices
from scheduler_ext.features.defrag.moves import Effort
from scheduler_ext.features.defrag.plan import (
    DefragPlan,
    PlacementGoal,
    doubt,
    free_gpus,
    make_plan,
    waiting_pod,
)
from scheduler_ext.features.defrag.plan_view import (
    amounts,
    execution_json,
    place,
    plan_json,
    summary,
    verdicts,
)
from scheduler_ext.features.defrag.rights import RIGHTS, missing_rights
from scheduler_ext.sources.clusterstate import ClusterState
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.manifests import Manifest, every_pod
from scheduler_ext.wire.pod.pod_identity import is_finished, is_terminating, pod_name

_MOST_GPUS = 1024
_MOST_DIGITS = 9
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class PodSelection:
    """The pods that are to get in, as given on the command line."""

    names: Sequence[str]
    filename: Path | None
    namespace: str | None

    def __post_init__(self) -> None:
        if bool(self.names) == (self.filename is not None):
            which = "--for and -f are too many" if self.names else "nothing to make room for"
            raise click.UsageError(f"{which}: give one of --for, -f")

    def manifests(self, source: ClusterInput) -> Sequence[Manifest]:
        """The pods of the file. Raises InventoryError."""
        if self.filename is None:
            return ()
        namespace = source.namespace(self.namespace)
        return read_pod_list(self.filename, namespace, only=self.namespace is not None)

    def wanted(
        self, manifests: Sequence[Manifest], source: ClusterInput, state: ClusterState, config: Configuration
    ) -> list[PlacementGoal]:
        """The waiting pods. Raises PodError, InventoryError."""
        found: list[PlacementGoal] = []
        if manifests:
            try:
                with naming(self.filename, InventoryError):
                    found = [waiting_pod(pod, state, config) for pod in every_pod(manifests)]
            except PodError as error:
                raise PodError(f"{self.filename}: {error}") from None
        for name in self.names:
            # Other scripts have digits too, and int() refuses some thousands of them.
            if name.isascii() and name.isdigit() and len(name) <= _MOST_DIGITS:
                if not 1 <= int(name) <= _MOST_GPUS:
                    raise click.UsageError(f"--for {name}: give 1 to {_MOST_GPUS} GPUs, or a pod")
                found.append(free_gpus(int(name), state, config))
            else:
                full = name if "/" in name else f"{source.namespace(self.namespace)}/{name}"
                found.append(_waiting(full, state, config))
        return found


def _waiting(name: str, state: ClusterState, config: Configuration) -> PlacementGoal:
    for pod in state.objects.pods:
        if pod_name(pod) == name and not is_finished(pod):
            if pod.spec is not None and pod.spec.node_name:
                raise PodError(f"pod {name} is on node {pod.spec.node_name} already")
            if is_terminating(pod):
                raise PodError(f"pod {name} is being deleted")
            return waiting_pod(pod, state, config)
    raise PodError(
        f"pod {name}: there is no such pod that waits; give the manifest of a new one with -f FILE"
    )


asked_options = bundled(
    PodSelection,
    "asked",
    click.option(
        "--for",
        "names",
        metavar="POD|N",
        multiple=True,
        help="A waiting pod, NAMESPACE/NAME or NAME; or a number of whole free GPUs on one node. Repeatable.",
    ),
    click.option(
        "-f",
        "--filename",
        type=FILE_OR_STDIN,
        help="File with Pods or workloads that are still to be created; - reads standard input.",
    ),
    namespace_option,
)


@click.command()
@asked_options
@source_options()
@click.option(
    "--min-age",
    "min_age_s",
    type=duration(0.0, 365 * _DAY_S),
    default="10m",
    help="Pods that started more recently are not moved.",
)
@click.option("--thorough", is_flag=True, help="Search ten times as long, if the search ended at its bound.")
@click.option(
    "--execute",
    is_flag=True,
    help="Evict the pods of the plan, one after the other, without asking. Needs a live cluster.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=duration(5.0, _DAY_S),
    default="5m",
    help="With --execute: the longest wait for one pod to end, to be created again, and to be placed.",
)
@config_option
@output_option
@click.pass_context
def defrag(
    ctx: click.Context,
    asked: PodSelection,
    source: ClusterInput,
    min_age_s: float,
    thorough: bool,
    execute: bool,
    timeout_s: float,
    config: Configuration,
    output: str,
) -> None:
    """Plan the fewest moves of running pods that let waiting pods in.

    A move evicts a pod, and its controller creates it again on another GPU. PodDisruptionBudgets are kept.
    Without --execute nothing is changed. Exit 0 if every pod fits, at once or by the plan; 3 if any does not.
    """
    if execute and (source.kubeconfig is None or asked.filename is not None):
        raise click.UsageError("--execute: needs a live cluster and pods that wait there; use --for")

    def rules() -> Rules:
        return Rules(min_age_s, source.moment(state))

    manifests = asked.manifests(source)
    claims = manifests[0].claims if manifests else ()
    state = source.state(config, with_objects=True, with_waiting=True, claims=claims)
    wanted = asked.wanted(manifests, source, state, config)
    with naming(state.source, InventoryError):
        plan = make_plan(wanted, state, config, rules(), Effort.thorough() if thorough else Effort())
    held = held_devices(state, [move.pod.uid for move in plan.moves])
    answer = plan_json(plan, held, config)
    # The manifests of a workload share notes, and each has those on the whole file.
    print_notes(list(dict.fromkeys(chain.from_iterable(manifest.notes() for manifest in manifests))))
    # Where another run holds room, a run is refused, with and without a plan.
    if execute and (plan.moves or plan.rooms):
        if plan.moves and output == "table":
            _print(answer, wide=False)
        waiting = {pod_name(pod) for pod in state.objects.pods if not (pod.spec and pod.spec.node_name)}
        _execute(answer, plan, source, config, rules, timeout_s, waiting)
    moved = (each["pod"].partition("/")[2] for each in answer["moves"])
    if not (execute and plan.moves and output == "table"):
        print_output(output, answer, "pod", moved, _print)
    done = answer["execution"] is None or answer["execution"]["problem"] is None
    ctx.exit(0 if answer["fits"] and done else WOULD_NOT_FIT)


def _execute(
    answer: dict[str, Any],
    plan: DefragPlan,
    source: ClusterInput,
    config: Configuration,
    rules: Callable[[], Rules],
    timeout_s: float,
    waiting: set[str],
) -> None:
    """Make the moves, and add what was done to the answer."""

    def say(line: str) -> None:
        show(line, err=True)

    assert source.kubeconfig is not None
    for outcome in plan.outcomes:
        if outcome.moves and (problem := doubt(outcome, config)) is not None:
            raise PodError(f"nothing was moved: {problem}")
    say("This needs the rights: " + "; ".join(RIGHTS))
    # So that a stop from outside releases what is held.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with closing(transport_of(source.kubeconfig)) as transport:
        missing = missing_rights(transport, {move.pod.bound.namespace for move in plan.moves})
        if missing:
            raise ClusterError(f"nothing was moved, because rights are missing: {'; '.join(missing)}")
        executor = Executor(transport, str(source.kubeconfig), config, rules, say, step_s=timeout_s)
        others = executor.rooms.left({outcome.wanted.name for outcome in plan.outcomes}, waiting)
        if others:
            raise ClusterError(f"nothing was moved, because another run is under way: {'; '.join(others)}")
        if not plan.moves:
            return
        answer["execution"] = execution_json(executor.run(plan.outcomes))
    say(summary(answer["execution"]))


def _print(answer: dict[str, Any], *, wide: bool) -> None:
    for line in verdicts(answer):
        show(line)
    print_notes(answer["notes"])
    if not answer["moves"]:
        return
    click.echo()
    columns: Columns = {
        "POD": "pod",
        "OWNER": lambda move: f"{move['owner']['kind']}/{move['owner']['name']}",
        "FROM": lambda move: place(move["from"]),
        "TO": lambda move: place(move["to"]),
        "FREES": lambda move: amounts(move["frees"]),
        "FOR": "for",
    }
    if wide:
        columns |= {"PRIORITY": "priority", "VALUE AT RISK": lambda move: f"{move['valueAtRisk']:.2f}"}
    print_items(columns, answer["moves"], wide=wide)
    click.echo()
    before, after = answer["fragmentation"]["before"], answer["fragmentation"]["after"]
    click.echo(
        f"Idle GPUs that future pods cannot use: {before['unusableGpus']:g} of {before['unallocatedGpus']:g} "
        f"before, {after['unusableGpus']:g} of {after['unallocatedGpus']:g} after"
    )
    if answer["alsoFit"]:
        show(f"Other waiting pods that would each fit then: {', '.join(answer['alsoFit'])}")
