"""The difference between observed use and promises."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler_ext.core.gpu.gpu import Holder, Memory
from scheduler_ext.core.node.node import BoundPod, NodeInfo
from scheduler_ext.core.node.promisable import drift_mib
from tests.core.reported import NAMES, SHARE, WHOLE, bound, device, node, wants

ON_0 = {"main": ("GPU-0",)}
PROMISED = (bound("p", wants(1000, SHARE), devices=ON_0),)


def _left(pods: tuple[BoundPod, ...]) -> tuple[BoundPod, ...]:
    return tuple(replace(pod, departed=True) for pod in pods)


def used(used_mib: int, unaccounted_mib: int | None = None, *, by: str = "p") -> NodeInfo:
    """A GPU with a share of 1000 MiB and this use."""
    holders = (Holder(uid=f"uid-{by}", memory_mib=used_mib - (unaccounted_mib or 0)),)
    return node(
        device(0, memory=Memory(80_000, 500, used_mib, unaccounted_mib), holders=holders), pods=PROMISED
    )


@pytest.mark.parametrize(
    ("info", "mib"),
    [
        pytest.param(used(4500, 3000), 500, id="more, and by no pod"),
        pytest.param(used(1500, by="q"), 1500, id="by a pod that was promised nothing"),
        pytest.param(
            node(
                device(
                    0,
                    memory=Memory(80_000, 0, 1600),
                    holders=(Holder(uid="uid-p", memory_mib=1200), Holder(uid="uid-q", memory_mib=400)),
                ),
                pods=(*PROMISED, bound("q", wants(5000, SHARE), devices=ON_0)),
            ),
            200,
            id="one uses more than its own while another leaves some",
        ),
        pytest.param(
            node(
                device(0, memory=Memory(80_000, 0, 900), holders=(Holder(uid="uid-p", memory_mib=900),)),
                device(1),
                pods=(
                    bound(
                        "p",
                        wants(600, SHARE, "a"),
                        wants(5000, SHARE, "b"),
                        devices={"a": ("GPU-0",), "b": ("GPU-1",)},
                    ),
                ),
            ),
            300,
            id="one container uses more than its own, however much another has elsewhere",
        ),
        pytest.param(replace(used(1500), report=None), 0, id="without a report"),
        pytest.param(
            node(
                device(0, memory=Memory(80_000, 0, 70_000), holders=(Holder(uid="uid-w"),)),
                pods=(bound("w", wants(1, WHOLE)),),
            ),
            0,
            id="a whole GPU is held with all it has",
        ),
        pytest.param(replace(used(1500), pods=_left(PROMISED)), 0, id="by one that has left since"),
    ],
)
def test_use_beyond_the_holdings(info: NodeInfo, mib: int) -> None:
    assert drift_mib(info, NAMES) == mib
