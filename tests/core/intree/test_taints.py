"""Tolerations against taints: every operator, every empty field, and valid integers."""

from __future__ import annotations

import pytest

from scheduler_ext.core.intree.affinity import Taint, Toleration, first_untolerated

DEDICATED = Taint(key="dedicated", value="gpu", effect="NoSchedule")
EVICTING = Taint(key="dedicated", value="gpu", effect="NoExecute")
SOFT = Taint(key="dedicated", value="gpu", effect="PreferNoSchedule")


def toleration(key: str = "", operator: str = "", value: str = "", effect: str = "") -> Toleration:
    return Toleration(key=key, operator=operator, value=value, effect=effect)


@pytest.mark.parametrize(
    ("candidate", "taint", "expected"),
    [
        pytest.param(
            toleration("dedicated", "Equal", "gpu"), DEDICATED, True, id="Equal with the same value"
        ),
        pytest.param(
            toleration("dedicated", "Equal", "cpu"), DEDICATED, False, id="Equal with another value"
        ),
        pytest.param(toleration("dedicated", "", "gpu"), DEDICATED, True, id="no operator means Equal"),
        pytest.param(toleration("dedicated", "Exists"), DEDICATED, True, id="Exists takes any value"),
        pytest.param(toleration("other", "Exists"), DEDICATED, False, id="Exists of another key"),
        pytest.param(
            toleration("", "Exists"), DEDICATED, True, id="an empty key with Exists takes all taints"
        ),
        pytest.param(
            toleration("", "", "gpu"), DEDICATED, True, id="an empty key with Equal compares values"
        ),
        pytest.param(toleration("", "", ""), DEDICATED, False, id="a wholly empty toleration is no wildcard"),
        pytest.param(toleration("dedicated", "exists"), DEDICATED, False, id="operators are case-sensitive"),
        pytest.param(
            toleration("dedicated", "Exists", "", "NoSchedule"), DEDICATED, True, id="the same effect"
        ),
        pytest.param(
            toleration("dedicated", "Exists", "", "NoSchedule"), EVICTING, False, id="another effect"
        ),
        pytest.param(toleration("dedicated", "Exists"), EVICTING, True, id="no effect takes all effects"),
    ],
)
def test_toleration_of_a_taint(candidate: Toleration, taint: Taint, expected: bool) -> None:
    assert candidate.tolerates(taint) is expected


@pytest.mark.parametrize(
    ("operator", "bound", "found", "expected"),
    [
        pytest.param("Lt", "10", "9", True, id="Lt takes a smaller taint value"),
        pytest.param("Lt", "10", "10", False, id="Lt refuses an equal taint value"),
        pytest.param("Gt", "10", "11", True, id="Gt takes a larger taint value"),
        pytest.param("Gt", "10", "10", False, id="Gt refuses an equal taint value"),
        pytest.param("Gt", "9", "10", True, id="numbers are compared as numbers, not as text"),
        pytest.param("Gt", "-5", "0", True, id="negative bounds are read"),
        pytest.param("Lt", "10", "gpu", False, id="a taint value that is no integer"),
        pytest.param("Lt", "ten", "9", False, id="a bound that is no integer"),
        pytest.param("Lt", "10", "09", False, id="a leading zero is not canonical"),
        pytest.param("Lt", "+10", "9", False, id="a plus sign is not canonical"),
        pytest.param("Gt", "-0", "1", False, id="minus zero is not canonical"),
        pytest.param("Lt", "9223372036854775808", "9", False, id="a bound beyond 64 bits"),
        pytest.param("Lt", "9223372036854775807", "9", True, id="the largest 64-bit bound"),
    ],
)
def test_numeric_toleration(operator: str, bound: str, found: str, expected: bool) -> None:
    taint = Taint(key="failure-percent", value=found, effect="NoSchedule")
    assert toleration("failure-percent", operator, bound).tolerates(taint) is expected


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        pytest.param([DEDICATED], [], DEDICATED, id="an untolerated NoSchedule taint"),
        pytest.param([SOFT], [], None, id="PreferNoSchedule keeps no pod away"),
        pytest.param([SOFT, EVICTING], [], EVICTING, id="the first taint that counts is named"),
        pytest.param(
            [DEDICATED, EVICTING],
            [toleration("dedicated", "Exists", "", "NoSchedule")],
            EVICTING,
            id="every taint needs a toleration",
        ),
        pytest.param(
            [DEDICATED, EVICTING],
            [
                toleration("dedicated", "Exists", "", "NoExecute"),
                toleration("dedicated", "", "gpu", "NoSchedule"),
            ],
            None,
            id="several tolerations cover several taints",
        ),
    ],
)
def test_first_untolerated_taint(
    taints: list[Taint], tolerations: list[Toleration], expected: Taint | None
) -> None:
    assert first_untolerated(taints, iter(tolerations)) == expected


def test_a_taint_reads_like_kubectl_writes_it() -> None:
    assert str(DEDICATED) == "dedicated=gpu:NoSchedule"
    assert (
        str(Taint("node.kubernetes.io/not-ready", "", "NoExecute"))
        == "node.kubernetes.io/not-ready:NoExecute"
    )
