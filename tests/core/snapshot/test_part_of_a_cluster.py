"""Some nodes by themselves are judged as among all, if the whole cluster is given."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from scheduler_ext.core.cycle.cycle import filter_nodes
from scheduler_ext.core.cycle.policy import SchedulingPolicy
from scheduler_ext.core.forecast.forecast import Forecast
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.pod_kinds import Workload
from scheduler_ext.core.request.request import GpuRequest
from scheduler_ext.core.snapshot.table import build_snapshot
from tests.strategies import clusters, requests, resolved, workloads


@given(cluster=clusters(), request=requests(), workload=workloads(), data=st.data())
def test_a_part_is_judged_as_within_the_whole(
    cluster: tuple[NodeInfo, ...], request: GpuRequest, workload: Workload, data: DataObject
) -> None:
    nodes = resolved(cluster)
    whole = build_snapshot(nodes, 1, forecast=Forecast(workload, ()))
    sent = data.draw(st.lists(st.sampled_from(sorted(nodes)), min_size=1, unique=True))
    part = build_snapshot({name: nodes[name] for name in sent}, 1, within=whole)
    among_all, by_themselves = (
        filter_nodes(request, whole, SchedulingPolicy()),
        filter_nodes(request, part, SchedulingPolicy()),
    )
    rows, own_rows = whole.state_of[whole.rows(sent)], part.state_of[part.rows(sent)]
    assert among_all.verdict[rows].tolist() == by_themselves.verdict[own_rows].tolist()
    np.testing.assert_array_equal(among_all.totals[rows], by_themselves.totals[own_rows])
