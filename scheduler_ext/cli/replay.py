"""``scheduler-ext replay``: ``explain`` on the saved state of an extender."""

from pathlib import Path
from typing import Any

import click

from scheduler_ext.cli.explain import answer_with
from scheduler_ext.cli.inputs import naming, read_pod
from scheduler_ext.cli.options import FILE_OR_STDIN, NAMESPACED_NAME, output_option
from scheduler_ext.core.errors import PodError, RequestError, SnapshotFileError
from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.snapshot_dump import Dump, revived
from scheduler_ext.wire.files import read_file
from scheduler_ext.wire.snapshot_file import decode_snapshot_file


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--pod", type=NAMESPACED_NAME, help="A pod of the snapshot, NAMESPACE/NAME.")
@click.option(
    "-f",
    "--filename",
    type=FILE_OR_STDIN,
    help="File with one Pod or one workload; the pod need not be in the snapshot. - reads standard input.",
)
@output_option
@click.pass_context
def replay(
    ctx: click.Context, file: Path, pod: tuple[str, str] | None, filename: Path | None, output: str
) -> None:
    """Explain a pod from the saved state of an extender.

    GET /debug/snapshot saves the state. The answer is the answer of the extender at that time. Exit 0 if the
    pod fits on some node, 3 if it fits on none.
    """
    if (pod is None) == (filename is None):
        which = "nothing to explain" if pod is None else "--pod and -f are too many"
        raise click.UsageError(f"{which}: give one of --pod, -f")
    try:
        explanation = _explained(file, pod, filename)
    except OverflowError as error:
        # Such a number decodes as an integer, and does not fit a column.
        raise SnapshotFileError(f"{file}: a number in it is out of range: {error}") from None
    answer_with(ctx, explanation, output)


def _explained(file: Path, pod: tuple[str, str] | None, filename: Path | None) -> dict[str, Any]:
    with naming(file, SnapshotFileError):
        replayed = revived(decode_snapshot_file(read_file(file), Dump))
    explainer = Explainer(replayed, replayed.record, replayed.config)
    try:
        if pod is not None:
            return explainer.of_name(*pod)
        assert filename is not None
        # A snapshot belongs to no context: a pod without a namespace is in kubectl's default.
        given = read_pod(filename, "default", only=False)
        return explainer.of_manifest(given.pod, given.notes())
    except RequestError as error:
        if pod is not None and error.status == 404:
            raise PodError(
                f"{file}: pod {pod[0]}/{pod[1]}: no pod of this name waits for GPUs or holds some there, and "
                "none was decided about lately; give its manifest with -f FILE"
            ) from None
        raise PodError(f"{file}: {error}") from None
