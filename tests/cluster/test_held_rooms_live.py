"""A room that is held on a GPUNode, followed in a cluster."""

from __future__ import annotations

import json
import time

import pytest

from scheduler_ext.wire.held_annotation import HELD_ANNOTATION
from scheduler_ext.wire.times import time_text
from tests.cluster.api.api_paths import PODS
from tests.cluster.living import TWO, Living
from tests.kube_objects import gpu

pytestmark = pytest.mark.usefixtures("impatient")
DEVICES = (gpu(0), gpu(1, "GPU-1"))


def hold(living: Living, seconds: float) -> None:
    """Hold room on node a for the pod two, until so long from now by the server's clock."""
    room = {"for": "default/two", "until": time_text(living.server.clock() + seconds)}
    living.report("a", *DEVICES, annotations={HELD_ANNOTATION: json.dumps([room])})


def test_a_room_is_held_by_the_servers_clock_until_it_ends(living: Living) -> None:
    # Far from the clock of this machine.
    living.server.clock = lambda: time.time() - 7200.0
    living.server.store.put(PODS, TWO)
    living.start()
    hold(living, 3600.0)
    living.fits("b")
    assert living.fitting(TWO) == "a"
    hold(living, -1.0)
    living.fits("ab")
