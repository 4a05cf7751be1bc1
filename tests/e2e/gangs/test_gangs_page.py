"""The commands of docs/features/gangs/gangs.md with their effect: a Job of two pods that starts whole."""

from __future__ import annotations

import pytest

from tests.e2e.cluster.api import eventually
from tests.e2e.documented import running_reader
from tests.e2e.installation import Installation
from tests.e2e.workload import Workload
from tests.pages import ROOT, blocks

pytestmark = pytest.mark.release

PAGE = ROOT / "docs" / "features" / "gangs" / "gangs.md"
PODS = "/api/v1/namespaces/train/pods"


def test_the_page_on_gangs(tmp_path_factory: pytest.TempPathFactory) -> None:
    turn_on, label, job = blocks(PAGE.read_text(), "sh")
    with running_reader(tmp_path_factory) as reader:
        workload = Workload(Installation(reader.cluster))
        workload.add_whole("a", 1)
        workload.publish(all_known=False)
        reader.run_block(turn_on)
        reader.run_block(label)
        apply, _, events = job.partition("\nEND\n")
        reader.run_block(f"{apply}\nEND\n")
        api = workload.api
        eventually(lambda: len(api.items(PODS)) == 2, "the Job has its pods")
        assert not any(pod["spec"].get("nodeName") for pod in api.items(PODS))
        workload.add_whole("b", 1)
        workload.write_reports()
        eventually(lambda: all(pod["spec"].get("nodeName") for pod in api.items(PODS)), "both start", 60)
        eventually(lambda: "have places" in reader.run_block(events), "the Event is shown")
