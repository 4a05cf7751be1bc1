"""Whose geometry an instance is judged by: its device's own, or the package's table where that fits."""

from __future__ import annotations

import pytest

from scheduler_ext.core.errors import ImpossibleReportError
from scheduler_ext.core.node.state import resolve
from tests.core.reported import NAMES, node
from tests.kube_objects import Json, gpu
from tests.wire.reports.gpunode_status import report_of

ONE_G = {"name": "1g.10gb", "size": 1, "starts": [0, 1, 2, 3, 4, 5, 6], "maxInstances": 7}


def mig(*instances: tuple[str, int, int], **fields: object) -> Json:
    """A status of one A100 with these (profile, start, size) instances, the first one held."""
    parts = [{"uuid": f"MIG-{s}", "profile": p, "start": s, "size": n} for p, s, n in instances]
    parts[0]["holder"] = {"namespace": "ns", "name": "p"}
    return {"devices": [gpu(0, mig={"enabled": True, "instances": parts, **fields})]}


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(
            mig(("1g.10gb", 10, 1), ("1g.10gb", 0, 1), gridSize=12), id="another grid than the table's"
        ),
        pytest.param(mig(("1g.10gb", 1, 1), ("7g.80gb", 0, 1)), id="a size that is not the profile's"),
        pytest.param(mig(("2g.20gb", 1, 2), ("1g.10gb", 0, 1)), id="a start that the profile does not have"),
        pytest.param(
            mig(("1g.10gb", 0, 2), ("1g.10gb", 3, 1), profiles=[ONE_G]), id="profiles of its own, but no grid"
        ),
        pytest.param(
            mig(("1g.10gb", 0, 2), ("1g.10gb", 3, 1), gridSize=8, profiles=[ONE_G | {"starts": []}]),
            id="profiles of its own, but no starts",
        ),
    ],
)
def test_a_table_that_does_not_fit_the_device_is_not_used(status: Json) -> None:
    report = report_of(status)
    assert report.devices[0].mig.geometry is None
    offered = resolve(node(*report.devices, report={"mig_strategy": "mixed"}), NAMES, 10).state.slots[0].units
    assert sum(unit.free for unit in offered) == 1
    assert [unit.mig_room for unit in offered if unit.free] == [None]


def test_an_instance_that_its_own_device_could_not_have_refuses_the_report() -> None:
    status = mig(("1g.10gb", 0, 2), gridSize=8, profiles=[ONE_G])
    with pytest.raises(
        ImpossibleReportError, match=r"status\.devices\[0\]\.mig\.instances\[0\]: its size or start"
    ):
        report_of(status)
