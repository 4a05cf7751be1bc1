"""The command autoscaler-config: its forms of output, its notes and its errors."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import Result

from tests.cli import commands
from tests.features.autoscaling.node_groups.tables import SHARES, group, table_bytes


def run(*arguments: str, given: bytes | None = None) -> Result:
    return commands.run("autoscaler-config", *arguments, stdin=given)


@pytest.mark.parametrize(
    ("autoscaler", "begins"),
    [("cluster-autoscaler", "# Flags of"), ("gke", "gcloud container clusters update")],
)
def test_others_get_commands_by_default(autoscaler: str, begins: str) -> None:
    result = run("--for", autoscaler, "-f", "-", given=table_bytes(group()))
    assert result.exit_code == 0
    assert result.stdout.startswith(begins)
    structured = run("--for", autoscaler, "-f", "-", "-o", "yaml", given=table_bytes(group()))
    assert yaml.safe_load(structured.stdout)["apiVersion"] == "cli.scheduler-ext.io/v1alpha1"


def test_notes_go_to_stderr() -> None:
    result = run("--for", "karpenter", "-f", "-", given=table_bytes(group(min=1)))
    assert result.stderr.startswith("Note: groups[0].min: Karpenter keeps no minimum")
    assert "Note" not in result.stdout


@pytest.mark.parametrize("autoscaler", ["karpenter", "cluster-autoscaler", "gke"])
def test_a_note_names_shares_of_more_memory_than_drivers_leave(autoscaler: str) -> None:
    shares, known = group(**SHARES, min=1), group("known", **SHARES, min=1, memoryMiB=22500)
    said = run("--for", autoscaler, "-f", "-", given=table_bytes(shares, known)).stderr
    assert "groups[0].memoryMiB: not given, so shares are parts of 23034 MiB" in said
    assert "write totalMiB less reservedMiB of such a GPU" in said
    assert "groups[1].memoryMiB" not in said


@pytest.mark.parametrize("autoscaler", ["karpenter", "gke"])
def test_a_full_output_is_no_error_of_the_file(autoscaler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    for name in ("show", "print_structured"):
        monkeypatch.setattr(f"scheduler_ext.features.autoscaling.node_groups.command.{name}", full)
    result = run("--for", autoscaler, "-f", "-", given=table_bytes(group()))
    assert "-: No space left" not in result.stderr


def test_an_error_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "groups.yaml"
    file.write_bytes(table_bytes(group(model="X")))
    for autoscaler in ("karpenter", "gke"):
        result = run("--for", autoscaler, "-f", str(file))
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"Error: {file}: groups[0].model: 'X' is no model of the table; ")
    result = run("--for", "gke", "-f", str(tmp_path / "none"))
    assert result.stderr == f"Error: {tmp_path / 'none'}: No such file or directory\n"
