"""Examples in the documentation are accepted, and outputs in it are the code's outputs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.request.resource_names import ResourceNames
from scheduler_ext.main import main
from scheduler_ext.wire.config import load_config
from scheduler_ext.wire.objects import assemble, read_objects, read_pods
from scheduler_ext.wire.pod.pod_request import pod_request
from tests.pages import PAGES, PENDING, ROOT, SAMPLE, blocks


def squeezed(line: str) -> str:
    return " ".join(line.split())


# Pods that wait have mistakes on purpose; their explanations on that page are generated.
PAGES_OF_GOOD_EXAMPLES = [path for path in PAGES if path != PENDING]


DEFAULTS = yaml.safe_load((ROOT / "manifests" / "charts" / "gpu-scheduler" / "values.yaml").read_text())


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=f"{path.relative_to(ROOT)} block {number}")
        for path in PAGES_OF_GOOD_EXAMPLES
        for number, block in enumerate(blocks(path.read_text(), "yaml"), 1)
    ],
)
def test_yaml_examples_are_accepted(block: str) -> None:
    for document in yaml.safe_load_all(block):
        text = yaml.safe_dump(document).encode()
        if "kind" not in document:
            assert_values_of_the_chart(document, DEFAULTS)
        elif document["kind"] == "ExtenderConfiguration":
            load_config(text)
        elif document["kind"] == "Pod":
            assert isinstance(pod_request(read_pods(text)[0], ResourceNames()), GpuRequest)
        elif document["kind"] == "GPUNode":
            assert assemble(read_objects(text), ResourceNames())


def assert_values_of_the_chart(values: dict[str, Any], defaults: dict[str, Any]) -> None:
    """They have names that it knows; tests/e2e/platforms renders them."""
    assert values.keys() <= defaults.keys()
    for name, value in values.items():
        if isinstance(value, dict):
            assert_values_of_the_chart(value, defaults[name])


def test_the_shell_block_of_the_quickstart_has_a_pod_that_fits() -> None:
    text = (ROOT / "docs" / "quickstart.md").read_text()
    pod = text.split("cat > llm.yaml <<'POD'\n")[1].split("POD\n")[0]
    result = CliRunner().invoke(main, ["explain", "-f", "-", "--inventory", str(SAMPLE)], input=pod)
    assert (result.exit_code, result.exception) == (0, None)


@pytest.mark.process
def test_the_readme_shows_what_the_demo_prints() -> None:
    command = [sys.executable, "-m", "scheduler_ext", "demo", "--once", "--port", "0"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    demo = [squeezed(line) for line in printed.splitlines()]
    table = blocks((ROOT / "README.md").read_text(), "")[0]
    assert [line for line in map(squeezed, table.splitlines()) if line not in demo] == []


def test_the_last_command_of_the_readme_leads_to_the_explanation_it_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "README.md").read_text()
    (command,) = [line for line in blocks(text, "")[1].splitlines() if "explain" in line]
    result = CliRunner().invoke(main, command.split()[1:])
    (told,) = [block for block in blocks(text, "") if block.startswith("Pod ")]
    printed = [line.rstrip() for line in result.output.splitlines()]
    assert result.exit_code == 3
    assert [line for line in told.splitlines() if line.rstrip() not in printed] == []


def test_the_pod_of_the_readme_is_the_sample() -> None:
    sample = (ROOT / "manifests" / "samples" / "three-a100.yaml").read_text()
    assert sample.split("\n", 1)[1] == blocks((ROOT / "README.md").read_text(), "yaml")[0]
