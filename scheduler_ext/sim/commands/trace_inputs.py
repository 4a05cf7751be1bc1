"""The cluster and the pods of `simulate trace`: CSVs, another public trace, a dump, or generated ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from click.core import ParameterSource

from scheduler_ext.cli.files import naming
from scheduler_ext.cli.options import FILE, bundled
from scheduler_ext.cli.output import show
from scheduler_ext.core.errors import InventoryError
from scheduler_ext.sim.cluster_dump import ClusterDump
from scheduler_ext.sim.commands.results import check_folder
from scheduler_ext.sim.generator import FAMILIES, GENERATOR_SEED, MIXED, generate_traces
from scheduler_ext.sim.openb import Traces, read_traces, write_traces
from scheduler_ext.sim.philly import read_philly
from scheduler_ext.sim.trace_workload import admits, model_of
from scheduler_ext.sim.world import TraceNode
from scheduler_ext.sources.clusterstate import file_state
from scheduler_ext.wire.config import Configuration

OPENB, PHILLY = "openb", "philly"
# Characters of a model's name in a note: with a broken quote, a cell may hold half a file.
_SHOWN_CHARACTERS = 80
_Inputs = tuple[tuple[TraceNode, ...], Traces]
_file = click.Path(path_type=Path, dir_okay=False)


@dataclass(frozen=True, slots=True)
class TraceInputs:
    """Where the cluster and the pods come from, as given by `trace_input_options`."""

    nodes: Path | None
    pods: Sequence[Path]
    form: str
    dump: Path | None
    generate: int | None
    family: str
    generator_seed: int
    write: Path | None

    def check(self, ctx: click.Context) -> None:
        """Raises click.UsageError for options that contradict each other, SimulationError for a folder that
        cannot be written."""

        def given(name: str) -> bool:
            return ctx.get_parameter_source(name) is not ParameterSource.DEFAULT

        if self.dump is not None and (self.nodes is not None or self.pods):
            raise click.UsageError("--dump: has nodes and pods; give it without --nodes and --pods")
        if (self.nodes is None) != (not self.pods):
            raise click.UsageError(
                "--nodes and --pods come together; "
                "give both files, or neither to generate them (--generate sets the number of nodes)"
            )
        if len({path.stem for path in self.pods}) < len(self.pods):
            raise click.UsageError("--pods: two files have the same name, so their results would; rename one")
        if self.nodes is None and given("form"):
            raise click.UsageError("--format: is that of --nodes and --pods; give these too")
        for name in ("generate", "family", "generator_seed", "write"):
            if given(name) and (self.nodes is not None or self.dump is not None):
                option, files = f"--{name.replace('_', '-')}", "--dump" if self.dump else "--nodes and --pods"
                raise click.UsageError(
                    f"{option}: is for generated nodes and pods; leave it out with {files}"
                )
        check_folder("--write", self.write)

    def read(self, config: Configuration) -> _Inputs:
        """The nodes and the traces by name, with notes on stderr. Raises SimulationError or InventoryError,
        which name the file and the place in it."""
        if self.dump is not None:
            shapes, traces = _from_dump(self.dump, config)
        elif self.nodes is None:
            count = self.generate or FAMILIES[self.family].nodes
            shapes, traces = generate_traces(count, self.generator_seed, self.family)
        elif self.form == PHILLY:
            shapes, traces, notes = read_philly(self.nodes, self.pods)
            _show_notes(notes)
        else:
            shapes, traces = read_traces(self.nodes, self.pods)
        if self.write is not None:
            write_traces(self.write, shapes, traces)
        _report_missing_models(shapes, traces)
        return shapes, traces


trace_input_options = bundled(
    TraceInputs,
    "inputs",
    click.option(
        "--nodes",
        type=_file,
        help="CSV of the nodes, as in the openb traces: sn,cpu_milli,memory_mib,gpu,model, and optionally "
        "value.",
    ),
    click.option(
        "--pods",
        type=_file,
        multiple=True,
        help="CSV of the pods: name,cpu_milli,memory_mib,num_gpu,gpu_milli, and optionally gpu_spec, qos and "
        "gang; repeat the option for several traces.",
    ),
    click.option(
        "--format",
        "form",
        type=click.Choice([OPENB, PHILLY]),
        default=OPENB,
        help="Format of --nodes and --pods; philly: cluster_machine_list and cluster_job_log.",
    ),
    click.option(
        "--dump",
        type=_file,
        metavar="FILE",
        help="Cluster and GPU pods from `kubectl get nodes,pods,gpunodes.gpu.scheduler-ext.io -A -o yaml`.",
    ),
    click.option(
        "--generate",
        type=click.IntRange(1, 100_000),
        help="Number of generated nodes, with pods for them, if no files are given (default: by family).",
    ),
    click.option(
        "--family",
        type=click.Choice(list(FAMILIES)),
        default=MIXED,
        help="Kind of the generated cluster: GPU models, sizes of pods, parts that name models, CPU.",
    ),
    click.option(
        "--generator-seed",
        type=click.IntRange(0, 999_999_999),
        default=GENERATOR_SEED,
        help="Seed of the generator: the same seed gives the same nodes and pods.",
    ),
    click.option(
        "--write", type=FILE, metavar="DIR", help="Folder for the generated nodes.csv and generated.csv."
    ),
)


def _from_dump(path: Path, config: Configuration) -> _Inputs:
    state = file_state(path, config.resource_names())
    with naming(path, InventoryError):
        dump = ClusterDump(state, config.sizing())
        pods = dump.trace_pods(dump.alive())
        if not pods:
            raise InventoryError("no pod in it requests GPUs that can be simulated")
    _show_notes(dump.notes)
    return dump.nodes_for_trace(), {path.stem: tuple(pods)}


def _show_notes(notes: Sequence[str]) -> None:
    for note in notes:
        show(f"Note: {note}", err=True)


def _report_missing_models(nodes: Sequence[TraceNode], traces: Traces) -> None:
    """A note: the user may simulate a part of a cluster, or may have misspelt a model."""
    models = {model_of(node.model) for node in nodes if node.gpus}
    for name, pods in traces.items():
        known = {
            wanted: any(admits(wanted, model) for model in models)
            for wanted in {pod.kind.models for pod in pods if pod.kind.models}
        }
        lost = [pod.kind.models for pod in pods if not known.get(pod.kind.models, True)]
        if lost:
            wanted = " or ".join(lost[0])[:_SHOWN_CHARACTERS]
            which = "1 pod requests" if len(lost) == 1 else f"{len(lost)} pods request"
            note = f"Note: {name}: no node has a model that {which} (first: {wanted});"
            show(f"{note} they count as rejected", err=True)
