"""Policies of users: files and entry points, and the errors of their code."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.sim.custom_policy import find_policy, is_custom
from scheduler_ext.sim.experiment import Experiment
from scheduler_ext.sim.generator import generate_traces
from scheduler_ext.sim.placement_policy import Policy, Target
from scheduler_ext.sim.protocols import run_inflation
from scheduler_ext.sim.scheduler import Placement, Scheduler, Settings
from scheduler_ext.sim.trace_workload import PodKind
from scheduler_ext.sim.world import World
from tests.sim.small import cluster_of, refusal, share, whole, world_with

IMPORTS = """\
import numpy as np
from scheduler_ext.sim.placement_policy import Evaluation, Policy
from scheduler_ext.sim.policies.published import BestFit, tightest_slot
"""
GOOD = f"""{IMPORTS}
class Mine(Policy):
    def evaluate(self, kind, nodes):
        return Evaluation(nodes.cpu_free, tightest_slot(kind, nodes.room_milli))
"""
TWO_NODES = cluster_of((8000, 2, "A100"), (9000, 2, "A100"))


def written(folder: Path, text: str, name: str = "mine.py") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def choice(policy: Policy, kind: PodKind, world: World | None = None) -> Placement | None:
    return Scheduler(world or World(TWO_NODES), policy, Settings()).choose(kind)


def test_a_slash_or_the_suffix_makes_a_file() -> None:
    assert [is_custom(text) for text in ("./mine", "mine.py", "fgd")] == [True, True, False]


def test_a_file_is_a_policy(tmp_path: Path) -> None:
    custom = find_policy(written(tmp_path, GOOD))
    policy = custom(Target(TWO_NODES, Workload()))
    assert (custom.name, policy.name) == ("mine", "mine")
    assert choice(policy, whole(1)) == Placement(1, (0,))
    assert choice(policy, share(300), world_with(TWO_NODES, (share(500), 1, (1,)))) == Placement(0, (0,))


def test_an_unchanged_subclass_of_the_default_decides_as_it_does(tmp_path: Path) -> None:
    text = "from scheduler_ext.sim.policies.default import Default\n\n\nclass Mine(Default):\n    pass\n"
    shapes, traces = generate_traces(40, 3, "mixed")
    experiment = Experiment(trace="t", nodes=shapes, pods=traces["generated"], policy="default", seed=1)
    custom = find_policy(written(tmp_path, text))
    ours, theirs = (run_inflation(each).run for each in (experiment, replace(experiment, custom=custom)))
    assert theirs.allocation_percent == ours.allocation_percent
    assert theirs.rejected_by_class == ours.rejected_by_class


def test_a_sent_policy_needs_no_file(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    sent = pickle.dumps(find_policy(path))
    Path(path).unlink()
    assert choice(pickle.loads(sent)(Target(TWO_NODES, Workload())), whole(1)) == Placement(1, (0,))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param(GOOD, "mine", id="the name of the file"),
        pytest.param(GOOD.replace("(Policy):", "(Policy):\n    name = 'own'"), "own", id="a name of its own"),
        pytest.param(GOOD.replace("(Policy)", "(BestFit)"), "mine", id="never the name of its parent"),
        pytest.param(
            GOOD.replace(
                "class", "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: 'int'\nclass"
            ),
            "mine",
            id="a file with a dataclass",
        ),
    ],
)
def test_a_policy_is_named_by(tmp_path: Path, text: str, name: str) -> None:
    assert find_policy(written(tmp_path, text)).name == name


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("x = (\n", ", line 1: SyntaxError: '(' was never closed", id="a syntax error"),
        pytest.param("raise SystemExit(3)\n", ", line 1: SystemExit: 3", id="a file that exits"),
        pytest.param(
            IMPORTS,
            ": has no subclass of scheduler_ext.sim.placement_policy.Policy; the file defines one",
            id="imported policies are not the file's own",
        ),
        pytest.param(
            f"{IMPORTS}\nclass Mine(Policy): pass\n",
            ": Mine has no method evaluate(self, kind, nodes)",
            id="no evaluate",
        ),
        pytest.param(
            GOOD.replace("(Policy):", "(Policy):\n    name = 7"),
            ": the name 7 of Mine is no text; write name = 'mine'",
            id="a name that is no text",
        ),
        pytest.param(
            GOOD + "\nclass Other(Mine): pass\n",
            ": has 2 subclasses of Policy: Mine, Other; keep one in a file",
            id="two policies",
        ),
        pytest.param(
            GOOD.replace("(Policy):", "(Policy):\n    name = 'fgd'"),
            ": fgd is the name of a built-in policy; give Mine another name",
            id="the name of a built-in policy",
        ),
        pytest.param(
            GOOD.replace("(Policy):", "(Policy):\n    published_ties = 'last'"),
            ": published_ties is 'last'; write 'first' or 'random'",
            id="ties that no scheduler has",
        ),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, problem: str) -> None:
    path = written(tmp_path, text)
    assert refusal(lambda: find_policy(path)).startswith(path + problem)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = str(tmp_path / "none.py")
    assert refusal(lambda: find_policy(path)) == f"{path}: cannot be read: No such file or directory"


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, point: str, *names: str) -> None:
    """A distribution of this name for each, with the entry point."""
    for name in names or ("gentle",):
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[scheduler_ext.policies]\n{point.replace('NAME', name)}\n")
    monkeypatch.syspath_prepend(folder)


def test_an_entry_point_is_a_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, GOOD, "gentle_policies.py")
    installed(tmp_path, monkeypatch, "gently = gentle_policies:Mine")
    assert is_custom("gently")
    custom = find_policy("gently")
    assert custom.name == "gently"
    sent = pickle.loads(pickle.dumps(custom))
    assert choice(sent(Target(TWO_NODES, Workload())), whole(1)) == Placement(1, (0,))


@pytest.mark.parametrize(
    ("point", "problem"),
    [
        pytest.param(
            "bad = collections:Counter",
            "entry point bad = collections:Counter: is no subclass of "
            "scheduler_ext.sim.placement_policy.Policy",
            id="another class",
        ),
        pytest.param("good = collections:Counter", "bad: no entry point of the group", id="another name"),
    ],
)
def test_an_entry_point_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, problem: str
) -> None:
    installed(tmp_path, monkeypatch, point)
    assert refusal(lambda: find_policy("bad")).startswith(problem)


def test_two_distributions_with_one_entry_point_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch, "bad = NAME:Mine", "one", "two")
    told = refusal(lambda: find_policy("bad"))
    assert told.startswith("entry point bad: 2 distributions have it: ")
    assert told.endswith("; keep one")


def evaluating(*lines: str) -> str:
    return f"{IMPORTS}\nclass Mine(Policy):\n    def evaluate(self, kind, nodes):\n" + "".join(
        f"        {line}\n" for line in lines
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            f"{IMPORTS}class Mine(BestFit):\n    def __init__(self, target):\n        raise KeyError('x')\n",
            ", line 6: KeyError: 'x'",
            id="an exception of the constructor",
        ),
        pytest.param(
            f"{IMPORTS}class Mine(BestFit):\n    def __init__(self):\n        pass\n",
            ", line 5: TypeError: Mine.__init__() takes 1 positional argument but 2 were given",
            id="a constructor that takes no target, at its first line",
        ),
        pytest.param(
            f"{GOOD}    def retarget(self, workload):\n        raise ValueError('two\\nlines')\n",
            ", line 9: ValueError: two lines",
            id="an exception of retarget, in one line",
        ),
        pytest.param(
            evaluating("nodes.cpu_free -= 1"),
            ", line 7: ValueError: output array is read-only",
            id="a policy that changes the nodes",
        ),
        pytest.param(
            evaluating("return Evaluation(np.zeros(9), np.zeros(2, int))"),
            ", line 6: evaluate: score has the shape (9,); give one value for each of the 2 nodes",
            id="too many scores",
        ),
        pytest.param(
            evaluating("return Evaluation(np.zeros(2), np.zeros(2))"),
            ", line 6: evaluate: slot has the type float64; give whole numbers",
            id="slots that are fractions",
        ),
        pytest.param(
            evaluating("return Evaluation(np.array([0, np.nan]), np.zeros(2, int))"),
            ", line 6: evaluate: score of node n1 is nan; give a number, or -inf",
            id="a score of NaN",
        ),
        pytest.param(
            evaluating("return Evaluation(np.zeros(2), np.zeros(2, int))"),
            ", line 6: evaluate: slot 0 of node n1 has 100 thousandths of a GPU left, and the pod asks 300",
            id="a slot without room",
        ),
        pytest.param(
            evaluating("return Evaluation(np.zeros(2), np.full(2, 2))"),
            ", line 6: evaluate: slot 2 of node n0 is no GPU, and the pod asks 300",
            id="a slot that is no GPU",
        ),
    ],
)
def test_a_mistake_of_a_policy_is_one_line(tmp_path: Path, text: str, problem: str) -> None:
    path = written(tmp_path, text)
    world = world_with(TWO_NODES, (share(900), 1, (0,)))
    custom = find_policy(path)

    def simulated() -> None:
        policy = custom(Target(TWO_NODES, Workload()))
        policy.retarget(Workload())
        choice(policy, share(300), world)

    assert refusal(simulated).startswith(path + problem)


@pytest.mark.parametrize(
    ("line", "slot"),
    [
        pytest.param("return [1, 2], [0, 0]", 0, id="lists"),
        pytest.param("return Evaluation(np.array([-np.inf, 0]), np.array([7, 1]))", 1, id="refused nodes"),
    ],
)
def test_results_that_can_be_used(tmp_path: Path, line: str, slot: int) -> None:
    policy = find_policy(written(tmp_path, evaluating(line)))(Target(TWO_NODES, Workload()))
    assert choice(policy, share(300)) == Placement(1, (slot,))


@pytest.mark.parametrize("ties", ["first", "random"])
def test_a_policy_has_ties_of_its_own(tmp_path: Path, ties: str) -> None:
    text = GOOD.replace("(Policy):", f"(Policy):\n    published_ties = {ties!r}")
    policy = find_policy(written(tmp_path, text))(Target(TWO_NODES, Workload()))
    assert Scheduler(World(TWO_NODES), policy, Settings()).ties == ties


def test_what_a_policy_prints_is_no_part_of_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = evaluating("print('looking')", "return np.zeros(2), np.zeros(2, int)")
    policy = find_policy(written(tmp_path, text))(Target(TWO_NODES, Workload()))
    assert choice(policy, share(300)) is not None
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "looking\n")


def test_a_policy_may_change_its_view_of_the_nodes(tmp_path: Path) -> None:
    text = evaluating("nodes.room_milli = nodes.only = None", "return np.zeros(2), np.zeros(2, int)")
    policy = find_policy(written(tmp_path, text))(Target(TWO_NODES, Workload()))
    assert choice(policy, share(300)) is not None
