"""What claims take of the capacities of a shared device, as kube-scheduler computes it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from scheduler_ext.core.dra.consumable import RequestPolicy, taken_amounts

STEPS = RequestPolicy(default=10, minimum=10, maximum=60, step=10)
VALUES = RequestPolicy(default=20, values=(20, 40, 80))


@pytest.mark.parametrize(
    ("policy", "asked", "taken"),
    [
        pytest.param(None, 15, 15, id="without a policy: the request"),
        pytest.param(None, None, 80, id="without a policy and a request: all"),
        pytest.param(STEPS, None, 10, id="without a request: the default"),
        pytest.param(STEPS, 5, 10, id="below the minimum"),
        pytest.param(STEPS, 10, 10, id="the minimum"),
        pytest.param(STEPS, 15, 20, id="between two steps: the higher one"),
        pytest.param(STEPS, 61, None, id="above the maximum"),
        pytest.param(VALUES, 30, 40, id="between two values: the higher one"),
        pytest.param(VALUES, 81, None, id="above all values"),
        pytest.param(RequestPolicy(default=7, minimum=10), None, 7, id="a default is always allowed"),
        pytest.param(RequestPolicy(minimum=10), 15, 15, id="a range without steps"),
        pytest.param(None, 81, None, id="more than the device has"),
        pytest.param(RequestPolicy(default=90), None, None, id="a default above what the device has"),
        pytest.param(None, -1, None, id="less than nothing"),
    ],
)
def test_the_amount_that_is_taken(policy: RequestPolicy | None, asked: int | None, taken: int | None) -> None:
    policies = {} if policy is None else {"memory": policy}
    requests = {} if asked is None else {"memory": asked}
    found = taken_amounts({"memory": 80}, policies, requests)
    assert found == (None if taken is None else {"memory": taken})


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        pytest.param({"memory": 20}, {"memory": 20, "cores": 100}, id="all of a capacity that is not asked"),
        pytest.param({"memory": 20, "cores": 5}, {"memory": 20, "cores": 5}, id="both are asked"),
        pytest.param({"bandwidth": 1}, None, id="a capacity that the device does not have"),
    ],
)
def test_several_capacities(asked: Mapping[str, int], taken: Mapping[str, int] | None) -> None:
    assert taken_amounts({"memory": 80, "cores": 100}, {}, asked) == taken
