"""``scheduler-ext replay``: the decisions of a running extender, asked about elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from scheduler_ext.cli.explain import WOULD_NOT_FIT, print_explanation
from scheduler_ext.cli.object_names import NamespacedName
from scheduler_ext.cli.options import output_option
from scheduler_ext.cli.output import print_names, print_structured
from scheduler_ext.cli.pod_files import read_pod
from scheduler_ext.core.errors import PodError, RequestError, SnapshotFileError
from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.snapshot_dump import revived
from scheduler_ext.wire.files import read_file
from scheduler_ext.wire.snapshot_file import decode_snapshot_file


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--pod", type=NamespacedName(), help="A pod of the snapshot, NAMESPACE/NAME.")
@click.option(
    "-f",
    "--filename",
    type=click.Path(path_type=Path, allow_dash=True),
    help="File with one Pod that need not be there, or a workload with a template; - for standard input.",
)
@output_option
@click.pass_context
def replay(
    ctx: click.Context, file: Path, pod: tuple[str, str] | None, filename: Path | None, output: str
) -> None:
    """Explain a pod on a saved state of an extender.

    GET /debug/snapshot saves the state; the answer is that of the extender at that moment. Exit 0 if the pod
    fits somewhere, 3 if it does not.
    """
    if (pod is None) == (filename is None):
        which = "nothing to explain" if pod is None else "--pod and -f are too many"
        raise click.UsageError(f"{which}: give one of --pod, -f")
    try:
        explanation = _explained(file, pod, filename)
    except OverflowError as error:
        # Such numbers pass for integers until they are to stand in columns.
        raise SnapshotFileError(f"{file}: a number in it is out of range: {error}") from None
    if output in ("json", "yaml"):
        print_structured(explanation, output)
    elif output == "name":
        print_names("node", explanation["best"])
    else:
        print_explanation(explanation, wide=output == "wide")
    ctx.exit(0 if explanation["fits"] else WOULD_NOT_FIT)


def _explained(file: Path, pod: tuple[str, str] | None, filename: Path | None) -> dict[str, Any]:
    try:
        replayed = revived(decode_snapshot_file(read_file(file)))
    except OSError as error:
        raise SnapshotFileError(f"{file}: {error.strerror or error}") from None
    except SnapshotFileError as error:
        raise SnapshotFileError(f"{file}: {error}") from None
    explainer = Explainer(replayed, replayed.record, replayed.config)
    try:
        if pod is not None:
            return explainer.of_name(*pod)
        assert filename is not None
        # A snapshot is of no context: a pod that names no namespace is in the one that kubectl falls back to.
        given = read_pod(filename, "default", only=False)
        return explainer.of_manifest(given.pod, given.notes())
    except RequestError as error:
        if pod is not None and error.status == 404:
            raise PodError(
                f"{file}: pod {pod[0]}/{pod[1]}: no pod of this name waits for GPUs or holds some there, and "
                "none was decided about lately; give its manifest with -f FILE"
            ) from None
        raise PodError(f"{file}: {error}") from None
