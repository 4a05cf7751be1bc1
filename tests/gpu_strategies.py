"""Random GPUs, as agents report them and as labels describe them; strategies.py makes nodes of them.

Every strategy is created once: Hypothesis needs longer to create one than to draw from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from scheduler_ext.core.gpu.gpu import Device, Holder, Memory, Mig, MigInstance, Report
from scheduler_ext.core.gpu.mig_geometry import Geometry, geometry_for
from scheduler_ext.core.gpu.mig_profile import Profile
from scheduler_ext.core.gpu.models import canonical_model
from scheduler_ext.core.node.estimate import Estimate

MAX_SLOTS = 16
# (product, vendor, total MiB, 0: unknown); the last is in no table.
PRODUCTS = (
    ("NVIDIA A100-SXM4-80GB", "nvidia", 81920),
    ("NVIDIA A100-SXM4-40GB", "nvidia", 40960),
    ("NVIDIA H100 80GB HBM3", "nvidia", 81559),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "nvidia", 97887),
    ("Tesla T4", "nvidia", 15360),
    ("AMD Instinct MI300X", "amd", 196608),
    ("NVIDIA GB10", "nvidia", 0),
    ("NVIDIA Future-Chip", "nvidia", 6144),
)
SHARE_SIZES_MIB = (1, 2048, 4096, 8192, 10240, 16384, 20480, 40960, 61440, 73728)
CONTAINERS = ("main", "second", "proxy", "fourth")
POD_NAMES = ("p0", "p1", "p2")

sizes_mib = st.sampled_from(SHARE_SIZES_MIB)


@cache
def one_in(count: int) -> SearchStrategy[bool]:
    """True about once in that many draws; shrinks to False. (Integers would favour their ends.)"""
    return st.sampled_from((False,) * (count - 1) + (True,))


_holders = st.one_of(
    st.builds(Holder, uid=st.sampled_from(POD_NAMES)),
    st.builds(
        Holder,
        namespace=st.just("default"),
        name=st.sampled_from((*POD_NAMES, "stranger")),
        container=st.sampled_from((None, *CONTAINERS[:2])),
        memory_mib=st.one_of(st.none(), sizes_mib),
    ),
)

STRATEGIES = ("fragmentation", "binpack", "spread")


_reserved_mib = st.sampled_from((0, 0, 700))
_used = st.sampled_from((0, 0, 1, 4))


@cache
@st.composite
def memories(draw: DrawFn, total_mib: int) -> Memory:
    """A device's memory: empty, used, with use without a known holder, or unknown."""
    if not total_mib or draw(one_in(12)):
        return Memory(total_mib, stated=total_mib > 0)
    reserved = draw(_reserved_mib)
    used = draw(_used)
    used_mib = draw(st.integers(0, total_mib - reserved)) if used == 4 else used * (total_mib // 5)
    unaccounted = draw(st.sampled_from((None, None, 0, used_mib // 2, used_mib)))
    return Memory(total_mib, reserved, used_mib, unaccounted)


_held_or_not = st.one_of(st.none(), st.none(), _holders)


@cache
def _places(geometry: Geometry) -> SearchStrategy[list[tuple[Profile, int]]]:
    places = [(profile, start) for profile in geometry.profiles for start in profile.starts]
    return st.lists(st.sampled_from(places), max_size=5)


@cache
@st.composite
def _instances(draw: DrawFn, geometry: Geometry) -> tuple[MigInstance, ...]:
    """Instances that lie beside each other, each perhaps held; UUIDs are given later."""
    found: list[MigInstance] = []
    taken = 0
    for profile, start in draw(_places(geometry)):
        holder = draw(_held_or_not)
        instance = MigInstance("", profile.name, start, profile.size, holder)
        if not instance.mask & taken:
            taken |= instance.mask
            found.append(instance)
    return tuple(found)


@cache
@st.composite
def _migs(draw: DrawFn, mig_table: str | None) -> Mig:
    geometry = geometry_for(mig_table)
    if geometry is None:
        # A GPU with unknown placements: only the report's instances are known.
        return Mig(True, instances=(MigInstance("", "1g.5gb", draw(st.integers(0, 6)), 1),))
    return Mig(True, draw(st.booleans()), geometry, draw(_instances(geometry)))


_products = st.sampled_from(PRODUCTS)
_some_holders = st.lists(_holders, max_size=2)


@cache
@st.composite
def devices(draw: DrawFn) -> Device:
    """One GPU of any product, healthy or not, partitioned or not; UUID and index are given later."""
    product, vendor, total_mib = draw(_products)
    model = canonical_model(product, vendor=vendor, memory_mib=total_mib)
    mig = Mig()
    if vendor == "nvidia" and draw(one_in(3)):
        mig = draw(_migs(model.mig_table))
    return Device(
        uuid="",
        index=0,
        vendor=vendor,
        product=product,
        model=model,
        compute_capability=model.compute_capability,
        memory=draw(memories(total_mib)),
        healthy=not draw(one_in(6)),
        mig=mig,
        holders=tuple(draw(_some_holders)) if draw(one_in(4)) else (),
    )


def numbered(devices: Sequence[Device]) -> tuple[Device, ...]:
    """The same devices with an index and UUIDs of their own, and their instances too."""
    return tuple(
        replace(
            device,
            uuid=f"GPU-{i}",
            index=i,
            mig=replace(
                device.mig,
                instances=tuple(
                    replace(instance, uuid=f"MIG-{i}-{j}") for j, instance in enumerate(device.mig.instances)
                ),
            ),
        )
        for i, device in enumerate(devices)
    )


_groups = st.tuples(devices(), st.sampled_from((2, 1, 1, 4, 8, MAX_SLOTS)))
_some_groups = st.lists(_groups, min_size=1, max_size=3)
_groups_or_none = st.lists(_groups, max_size=3)
_mig_strategies = st.sampled_from(("mixed", "mixed", "none", "single"))
_sharing = st.sampled_from((("none", 1), ("none", 1), ("none", 1), ("time-slicing", 4), ("mps", 2)))
_cuda_versions = st.sampled_from(((12, 4, 1), (13, 0), (12, 2), None))


@cache
@st.composite
def reports(draw: DrawFn) -> Report:
    """An agent's report of a node: up to 16 devices, heterogeneous or in equal groups, or none."""
    groups = draw(_groups_or_none if draw(one_in(10)) else _some_groups)
    found = [device for device, copies in groups for _ in range(copies)][:MAX_SLOTS]
    mig_strategy = draw(_mig_strategies)
    if mig_strategy == "single" and found and draw(st.booleans()):
        found = [_sliced(device) for device in found]
    sharing, replicas = draw(_sharing)
    return Report(
        devices=numbered(found),
        cuda_version=draw(_cuda_versions),
        mig_strategy=mig_strategy,
        sharing_strategy=sharing,
        replicas=replicas,
    )


def _sliced(device: Device) -> Device:
    """An A100 cut into three 2g.20gb: each GPU of a node under MIG strategy single."""
    product, vendor, total_mib = PRODUCTS[0]
    holders = [instance.holder for instance in device.mig.instances] + [None] * 3
    return replace(
        device,
        vendor=vendor,
        product=product,
        model=canonical_model(product, memory_mib=total_mib),
        memory=replace(device.memory, total_mib=total_mib),
        mig=Mig(
            True,
            geometry=geometry_for("A100-80GB"),
            instances=tuple(
                MigInstance("", "2g.20gb", start, 2, holder)
                for start, holder in zip((0, 2, 4), holders, strict=False)
            ),
        ),
    )


_estimated_sharing = st.sampled_from((("none", 1), ("none", 1), ("time-slicing", 4), ("mps", 2)))
_estimated_counts = st.integers(0, 8)
_estimated_cuda_versions = st.sampled_from((None, (12, 4)))


@cache
@st.composite
def estimates(draw: DrawFn) -> Estimate:
    """Labels of a node without a report; the memory of some models is unknown."""
    product, vendor, total_mib = draw(_products)
    model = canonical_model(product, vendor=vendor)
    sharing, replicas = draw(_estimated_sharing)
    return Estimate(
        vendor=vendor,
        model=model,
        count=draw(_estimated_counts),
        memory_mib=draw(st.sampled_from((None, total_mib or None))),
        compute_capability=model.compute_capability,
        cuda_version=draw(_estimated_cuda_versions),
        driver_version=None,
        sharing_strategy=sharing,
        replicas=replicas,
        mig_strategy="none",
    )
