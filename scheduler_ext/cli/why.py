"""`scheduler-ext why`: the reason why a pod waits, or is on its node."""

from typing import Any

import click

from scheduler_ext.cli.answers import LiveCluster, live_options
from scheduler_ext.cli.explain import WOULD_NOT_FIT, print_nodes
from scheduler_ext.cli.kubeconfigs import complete_pods
from scheduler_ext.cli.options import namespace_option
from scheduler_ext.cli.output import print_notes, print_output, show
from scheduler_ext.core.errors import PodError
from scheduler_ext.explain.in_words import why_in_words, why_not


@click.command()
@click.argument("pod", shell_complete=complete_pods)
@namespace_option
@live_options
@click.pass_context
def why(ctx: click.Context, pod: str, namespace: str | None, live: LiveCluster, output: str) -> None:
    """Explain why a pod waits, or why it is on its node.

    Exit 0 if the pod has a node or would fit, 3 if it would not fit, 1 if there is no such pod now.
    """
    name = pod.removeprefix("pod/").removeprefix("pods/")
    if "/" in name:
        raise click.UsageError(f"{pod!r} is no name of a pod; -n chooses its namespace")
    where = live.namespace(namespace)
    answer = live.answers().pod(where, name)
    # Older extenders do not report it.
    gone = answer is None or answer.get("gone", False)
    if answer is not None and not (gone and output == "name"):
        print_output(output, answer, "pod", [name], _print)
    if gone:
        raise PodError(
            f"pod {where}/{name}: there is no such pod that waits for GPUs or holds some"
            + ("; -n chooses another namespace" if namespace is None else "")
        )
    assert answer is not None
    ctx.exit(0 if answer["fits"] or answer["boundTo"] else WOULD_NOT_FIT)


def _print(answer: dict[str, Any], *, wide: bool) -> None:
    words = why_in_words(answer)
    lines = [words.request, *(f"Note: {note}" for note in words.notes)]
    if answer.get("gone", False):
        # The user first has to see that no such pod waits.
        lines[:2] = reversed(lines[:2])
    lines += [*words.verdict[:-1], *why_not(answer)] if words.refused else words.verdict
    lines += [*([words.kube_scheduler] if words.kube_scheduler is not None else []), *words.decisions]
    for line in lines:
        show(line)
    print_notes(words.not_modelled)
    if wide:
        click.echo()
        print_nodes(answer, wide=True, here=answer["boundTo"])
