"""The kind of pod of a request."""

from __future__ import annotations

import pytest

from scheduler_ext.core.request.pod_kinds import TaskClass, task_class
from scheduler_ext.core.request.request import ContainerRequest, ContainerRole
from tests.core.reported import ONE_G, SHARE, WHOLE, ask, wants


@pytest.mark.parametrize(
    ("containers", "cpu_milli", "models", "expected"),
    [
        pytest.param([], 4000, (), None, id="no GPU, no kind"),
        pytest.param([wants(2, WHOLE)], 0, (), TaskClass(gpus=2), id="whole GPUs"),
        pytest.param(
            [wants(2, WHOLE), wants(1, WHOLE, "other")], 0, (), TaskClass(gpus=3), id="of all containers"
        ),
        pytest.param([wants(1, WHOLE)], 1, (), TaskClass(500, gpus=1), id="CPU in half cores, rounded up"),
        pytest.param([wants(1, WHOLE)], 1500, (), TaskClass(1500, gpus=1), id="a round amount as it is"),
        pytest.param(
            [wants(4096, SHARE), wants(8191, SHARE, "other")],
            0,
            (),
            TaskClass(shares_mib=(8191, 4096)),
            id="shares, the largest first",
        ),
        pytest.param(
            [wants(9000, SHARE, "load", ContainerRole.INIT), wants(10, SHARE)],
            0,
            (),
            TaskClass(shares_mib=(10,)),
            id="those that run for good",
        ),
        pytest.param(
            [wants(9000, SHARE, "load", ContainerRole.INIT)],
            0,
            (),
            TaskClass(shares_mib=(9000,)),
            id="or for a moment, without others",
        ),
        pytest.param(
            [wants(2, ONE_G), wants(1, "nvidia.com/mig-3g.40gb", "b")],
            0,
            (),
            TaskClass(mig=(("1g.10gb", 2), ("3g.40gb", 1))),
            id="instances by profile",
        ),
        pytest.param(
            [wants(1, WHOLE)],
            0,
            ("T4", "A100", "T4"),
            TaskClass(gpus=1, models=("A100", "T4")),
            id="models in order, each once",
        ),
        pytest.param(
            [wants(1, WHOLE)],
            0,
            tuple(f"M{i}" for i in range(17)),
            TaskClass(gpus=1),
            id="of so many that nearly any will do",
        ),
    ],
)
def test_the_kind(
    containers: list[ContainerRequest], cpu_milli: int, models: tuple[str, ...], expected: TaskClass | None
) -> None:
    assert task_class(ask(*containers), cpu_milli, models) == expected


def test_pods_alike_share_one_value() -> None:
    first, second = (task_class(ask(wants(1, WHOLE)), 400, ()) for _ in "ab")
    assert first is second
