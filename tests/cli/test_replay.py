"""scheduler-ext replay: edited files, and the error for an absent pod."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from scheduler_ext.explain.explainer import Explainer
from scheduler_ext.explain.snapshot_dump import read_moment
from scheduler_ext.sources.clusterstate import file_state
from scheduler_ext.wire.config import Configuration
from tests.cli.commands import WHOLE, Written, error_of, run
from tests.kube_objects import Json, pod


def snapshot(cluster: Path) -> Json:
    """The snapshot that an extender would save of these objects."""
    config = Configuration()
    moment = read_moment(file_state(cluster, config.resource_names()), config)
    explainer = Explainer(moment, moment.record, config)
    value: Json = json.loads(gzip.decompress(explainer.snapshot_file()))
    return value


def test_a_number_that_cannot_be_is_one_error(cluster: Path, written: Written) -> None:
    value = snapshot(cluster)
    value["state"]["nodes"][0]["report"]["devices"][1]["memory"]["total_mib"] = 10**30
    file = written("snapshot.json", json.dumps(value))
    problem = error_of(run("replay", file, "-f", written("pod.yaml", pod("p", {WHOLE: "1"}))))
    assert problem.startswith(f"{file}: a number in it is out of range: ")


def test_a_pod_that_is_not_in_it_may_be_given(cluster: Path, written: Written) -> None:
    file = written("snapshot.json", json.dumps(snapshot(cluster)))
    problem = error_of(run("replay", file, "--pod", "default/nobody"))
    assert problem.startswith(f"{file}: pod default/nobody: no pod of this name waits for GPUs")
    assert problem.endswith("; give its manifest with -f FILE")
    assert "POST" not in problem
