"""Laws of the room on a GPU; every view of free memory agrees with it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler_ext.core.gpu.gpu import Memory
from scheduler_ext.core.gpu.share_memory import DeviceHoldings, ShareMemory
from scheduler_ext.core.node.holdings import holdings_of
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.node.state import resolve
from tests.strategies import RESOURCES, clusters

# Usually small against a GPU, so that room remains; sometimes as large, so that some have too little.
mib = st.integers(0, 60) | st.integers(0, 60) | st.integers(0, 60) | st.integers(0, 700)
percents = st.sampled_from((0, 1, 10, 90))
memories = st.builds(Memory, st.integers(0, 999), mib, mib, st.none() | mib)
holdings = st.builds(DeviceHoldings, requested_mib=mib, foreign_mib=mib, departed_mib=mib)
rooms = st.builds(ShareMemory.of, memories, holdings, percents)


@given(memories, holdings, percents)
def test_free_is_what_the_larger_of_requests_and_use_leaves(
    memory: Memory, held: DeviceHoldings, percent: int
) -> None:
    """The formula in one line, for GPUs without overcommitment of their own."""
    headroom = -(-memory.total_mib * percent // 100)
    strangers = (memory.unaccounted_mib or 0) + held.foreign_mib
    explained = max(held.requested_mib, memory.used_mib - strangers - held.departed_mib)
    left = memory.total_mib - memory.reserved_mib - headroom - strangers - explained
    assert ShareMemory.of(memory, held, percent).free == max(0, left)


@given(rooms, mib)
def test_a_load_that_leaves_again_changes_nothing(room: ShareMemory, load_mib: int) -> None:
    assert room.after(load_mib).without([DeviceHoldings(requested_mib=load_mib)]) == room


@given(memories, holdings, holdings, percents)
def test_without_a_part_is_the_room_beside_the_rest(
    memory: Memory, rest: DeviceHoldings, part: DeviceHoldings, percent: int
) -> None:
    both = DeviceHoldings(
        requested_mib=rest.requested_mib + part.requested_mib,
        foreign_mib=rest.foreign_mib + part.foreign_mib,
        departed_mib=rest.departed_mib + part.departed_mib,
    )
    assert both.less(part) == rest
    assert ShareMemory.of(memory, both, percent).without([part]) == ShareMemory.of(memory, rest, percent)


@given(memories, holdings, percents)
def test_only_an_overcommitted_gpu_has_less_than_no_room(
    memory: Memory, held: DeviceHoldings, percent: int
) -> None:
    room = ShareMemory.of(memory, held, percent)
    asked = held.requested_mib + held.foreign_mib + (memory.unaccounted_mib or 0)
    assert (room.unpromised < 0) == (asked > room.share_total)
    assert (room.unused < 0) == (memory.used_mib - held.departed_mib > room.share_total)
    assert 0 <= room.free <= max(0, room.unpromised)
    assert room.share_total >= 0
    held_mib = held.requested_mib + held.foreign_mib
    # Without any, such as on a GPU of unknown memory, the GPU is held as soon as a pod holds some.
    held_part = min(1, held_mib / room.share_total) if room.share_total else held_mib > 0
    assert abs(room.idle - (1 - held_part)) < 1e-8


@given(rooms, st.integers(1, 100), mib)
def test_as_many_copies_as_one_after_the_other(room: ShareMemory, each_mib: int, least_free_mib: int) -> None:
    count, left = 0, room
    while left.free >= max(each_mib, least_free_mib):
        count, left = count + 1, left.after(each_mib)
    assert room.copies(each_mib, least_free_mib) == count


@given(rooms)
def test_the_excess_of_use_is_what_promises_leave_beyond_use(room: ShareMemory) -> None:
    assert room.unused + room.excess == room.unpromised


@given(clusters(), percents)
def test_the_shares_of_a_state_are_the_rooms_of_its_gpus(infos: tuple[NodeInfo, ...], percent: int) -> None:
    for info in infos:
        node, held = resolve(info, RESOURCES, percent), holdings_of(info, RESOURCES)
        devices = {device.uuid: device for device in info.report.devices} if info.report else {}
        open_slots = [
            (slot, devices[uuid], held.devices[uuid])
            for slot, uuid in zip(node.state.slots, node.uuids, strict=True)
            if uuid is not None and slot.share_free_mib >= 0
        ]
        rooms = [ShareMemory.of(device.memory, here, percent) for _, device, here in open_slots]
        assert sum(slot.share_free_mib for slot, _, _ in open_slots) == sum(room.free for room in rooms)
        assert [slot.share_total_mib for slot, _, _ in open_slots] == [room.share_total for room in rooms]
