"""Random readings of a node, plausible and implausible."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from scheduler_ext.agent.holders import DeviceHolders
from scheduler_ext.agent.node_reading import (
    DeviceReading,
    InstanceReading,
    NodeReading,
    ProfileReading,
    Samples,
)
from scheduler_ext.wire.gpunode import HolderStatus

FAULTS = ("GPU is lost", "row remapping failed")
XIDS = (13, 31, 48, 79, 94, 4711)
PROFILES = ("1g.10gb", "1g.10gb+me", "2g.20gb", "3g.40gb", "1c.3g.40gb", "7g.80gb")
ODD_PROFILES = ("1G.10GB", "1g.10gb.me", "1g.10gb+new", "3c.3g.40gb", "", "big")
PRODUCTS = ("NVIDIA H100 80GB HBM3", "Tesla T4", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB MIG 1g.10gb")
UUIDS = ("GPU-0", "GPU-1", "GPU-2", "GPU-3")

_T = TypeVar("_T")
_texts = st.one_of(st.sampled_from(PRODUCTS), st.text("aT4 ,\n\x1bé", max_size=200))
_mib = st.one_of(st.integers(0, 100_000), st.integers(0, 2**24))
_units = st.integers(0, 20)


def perhaps(strategy: SearchStrategy[_T]) -> SearchStrategy[_T | None]:
    return st.one_of(st.none(), strategy)


_holders = st.builds(
    HolderStatus,
    uid=perhaps(st.just("1f2e3d4c-1111-2222-3333-444455556666")),
    namespace=perhaps(st.just("ml")),
    name=perhaps(st.just("train.0")),
    container=perhaps(st.just("main")),
    memory_mib=perhaps(_mib),
)
_profiles = st.one_of(
    st.builds(
        ProfileReading,
        name=st.sampled_from(PROFILES),
        size=st.integers(1, 4),
        starts=st.lists(st.integers(0, 7), min_size=1, max_size=8).map(tuple),
        max_instances=st.integers(1, 7),
        memory_mib=st.integers(1, 90_000),
    ),
    st.builds(
        ProfileReading,
        name=st.sampled_from(PROFILES + ODD_PROFILES),
        size=perhaps(_units),
        starts=perhaps(st.lists(_units, max_size=20).map(tuple)),
        max_instances=st.integers(0, 100),
        memory_mib=perhaps(_mib),
    ),
)
_instances = st.one_of(
    st.builds(
        InstanceReading,
        uuid=st.just(""),
        profile=st.sampled_from(PROFILES),
        start=st.integers(0, 7),
        size=st.sampled_from((1, 2, 4)),
    ),
    st.builds(
        InstanceReading,
        uuid=st.just(""),
        profile=st.sampled_from(PROFILES + ODD_PROFILES),
        start=perhaps(st.integers(0, 17)),
        size=perhaps(st.integers(0, 9)),
    ),
)


# Consistent layouts, which the strategies above draw too rarely for a law about placed instances.
_SMALL = ProfileReading("1g.10gb", size=1, starts=(0, 1, 2, 3, 4, 5, 6), max_instances=7, memory_mib=9728)
_placed = st.sets(st.integers(0, 6), min_size=1).map(
    lambda starts: tuple(InstanceReading("", "1g.10gb", start, 1) for start in starts)
)


@st.composite
def samples(draw: DrawFn) -> Samples:
    """Plausible or not."""
    number = perhaps(st.one_of(st.integers(0, 100), st.integers(-(2**40), 2**40)))
    return Samples(
        utilization_percent=draw(number),
        memory_utilization_percent=draw(number),
        power_watts=draw(perhaps(st.floats(-1e9, 1e9))),
        temperature_celsius=draw(number),
        sm_clock_mhz=draw(number),
        throttle_reasons=draw(perhaps(st.just(("PowerCap", "PowerBrake")))),
        computing=draw(perhaps(st.booleans())),
        busy_pids=draw(perhaps(st.frozensets(st.integers(1, 5)))),
    )


@st.composite
def _devices(draw: DrawFn) -> DeviceReading:
    """UUID and index are given later."""
    mig = draw(st.booleans())
    consistent = mig and draw(st.booleans())
    capability = st.tuples(st.integers(1, 20), st.integers(0, 9))
    return DeviceReading(
        uuid="",
        index=0,
        total_mib=draw(st.one_of(st.sampled_from((0, 15360, 81559)), _mib)),
        product=draw(perhaps(_texts)),
        architecture=draw(perhaps(st.just("hopper"))),
        compute_capability=draw(perhaps(capability)),
        reserved_mib=draw(perhaps(_mib)),
        used_mib=draw(perhaps(_mib)),
        samples=draw(samples()),
        numa_node=draw(perhaps(st.integers(-1, 1023))),
        pci_bus_id=draw(perhaps(st.just("0000:3b:00.0"))),
        # Instances of a GPU whose mode is off are left out of its report.
        mig_enabled=consistent or draw(st.sampled_from((True, True, False, None) if mig else (False, None))),
        grid_size=8 if consistent else draw(st.sampled_from((8, 4, 16, 17, 0, None))),
        profiles=((_SMALL,) if consistent else tuple(draw(st.lists(_profiles, max_size=6)))) if mig else (),
        instances=draw(_placed if consistent else st.lists(_instances, max_size=7).map(tuple)) if mig else (),
        faults=draw(st.lists(st.sampled_from(FAULTS), max_size=1).map(tuple)),
        xids=draw(st.lists(st.sampled_from(XIDS), max_size=2).map(tuple)),
    )


@st.composite
def node_readings(draw: DrawFn) -> NodeReading:
    """Up to four GPUs in any order; their values need not be consistent."""
    uuids = draw(st.permutations(UUIDS))
    devices = [
        replace(
            device,
            uuid=uuids[i],
            index=i,
            instances=tuple(replace(found, uuid=f"MIG-{i}-{j}") for j, found in enumerate(device.instances)),
        )
        for i, device in enumerate(draw(st.lists(_devices(), max_size=len(UUIDS))))
    ]
    return NodeReading(
        tuple(draw(st.permutations(devices))),
        driver_version=draw(perhaps(st.one_of(st.just("570.172.08"), st.text("5.7 \n\x00é", max_size=100)))),
        cuda_version=draw(perhaps(st.just("12.8"))),
        problem=draw(perhaps(_texts)),
    )


@st.composite
def holdings_of(draw: DrawFn, reading: NodeReading) -> dict[str, DeviceHolders]:
    """Holders of some of a reading's devices and instances; unaccounted memory need not fit the use."""
    return {
        device.uuid: DeviceHolders(
            tuple(draw(st.lists(_holders, max_size=3))),
            {instance.uuid: draw(_holders) for instance in device.instances if draw(st.booleans())},
            draw(perhaps(_mib)),
        )
        for device in reading.devices
        if draw(st.booleans())
    }
