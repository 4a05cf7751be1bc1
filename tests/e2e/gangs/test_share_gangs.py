"""Gangs of pods with shares of a GPU's memory: planned, bound by the extender, and started whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.cluster.api import eventually
from tests.e2e.gangs.gang_cluster import CONFIGURATION, PREFIX, Gangs
from tests.e2e.installation import Installation
from tests.e2e.kustomization import write_kustomization
from tests.e2e.shares.share_workload import ROOM_MIB, ShareWorkload, running_share_installation
from tests.kube_objects import SHARE

# Of these, a GPU takes three, two and one.
THIRD, HALF, MOST = ROOM_MIB * 2 // 7, ROOM_MIB * 3 // 7, ROOM_MIB * 5 // 7
SIZES = [(2, THIRD), (4, THIRD), (8, THIRD), (12, THIRD), (8, HALF), (3, MOST), (5, MOST), (8, MOST)]


class ShareGangs(Gangs, ShareWorkload):
    """Gangs whose members ask shares."""

    def held_mib(self) -> dict[str, int]:
        """The memory that is assigned of each GPU."""
        held: dict[str, int] = {}
        for pod in self.all_pods():
            for device in self.devices(pod["metadata"]["name"]).values():
                asked = pod["spec"]["containers"][0]["resources"]["limits"][SHARE]
                held[device] = held.get(device, 0) + int(asked)
        return held


@pytest.fixture(scope="module")
def share_gang_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    directory = tmp_path_factory.mktemp("share-gangs")
    overlay = write_kustomization(
        directory / "overlay",
        "overlays/shares",
        ["gangs"],
        extender=CONFIGURATION | {"bind": {"enabled": True}},
    )
    with running_share_installation(directory, overlay) as installation:
        yield installation


@pytest.fixture
def gangs(share_gang_cluster: Installation) -> Iterator[ShareGangs]:
    share_gang_cluster.await_ready()
    gangs = ShareGangs(share_gang_cluster)
    for stem in ("a", "b"):
        gangs.add_shared(stem, 4)
    gangs.publish()
    yield gangs
    gangs.close()


def assert_started_at_once(gangs: ShareGangs) -> None:
    """No member lost its place on the way, none was refused there, and no GPU has more than it can hold."""
    assert [note for note in gangs.notes("GPUGangWaiting") if "members fit" in note] == []
    assert [note for note in gangs.notes("FailedScheduling") if "no longer fits" in note] == []
    assert gangs.notes("GPUGangEvicted") == []
    assert max(gangs.held_mib().values()) <= ROOM_MIB


@pytest.mark.parametrize(("size", "mib"), SIZES)
def test_a_gang_that_fits_starts_at_once(gangs: ShareGangs, size: int, mib: int) -> None:
    gangs.add("train", size, share_mib=mib)
    eventually(lambda: len(gangs.on_nodes("train")) == size, "all members run")
    assert_started_at_once(gangs)


def test_gangs_start_at_once_beside_single_pods(gangs: ShareGangs) -> None:
    """The single pods fill two GPUs, the first gang takes all others, the second one what these leave."""
    for number in range(6):
        gangs.create(gangs.member(f"single-{number}", share_mib=THIRD))
    eventually(lambda: len(gangs.on_nodes("single")) == 6, "the single pods run")
    gangs.add("large", 6, share_mib=MOST)
    eventually(lambda: len(gangs.on_nodes("large")) == 6, "the large gang runs")
    gangs.add("small", 6, share_mib=THIRD)
    eventually(lambda: len(gangs.on_nodes("small")) == 6, "the small gang runs")
    assert_started_at_once(gangs)


def test_a_gang_starts_although_the_extender_is_killed_meanwhile(gangs: ShareGangs) -> None:
    extender = gangs.installation.active().containers["extender"]
    restarts = extender.restarts
    gangs.add("train", 12, share_mib=THIRD, notes={f"{PREFIX}gang-deadline": "60s"})
    eventually(lambda: gangs.on_nodes("train"), "the first member runs")
    assert extender.child is not None
    extender.child.kill()
    eventually(lambda: extender.restarts == restarts + 1, "the extender is started again")
    eventually(lambda: len(gangs.on_nodes("train")) == 12, "all members run", 60)
    assert max(gangs.held_mib().values()) <= ROOM_MIB
