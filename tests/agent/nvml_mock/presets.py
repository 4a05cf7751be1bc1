"""GPUs as in NVML: names, memory, profiles and placements of real ones."""

from __future__ import annotations

from tests.agent.nvml_mock.library import FakeGpu, FakeMig, FakeProfile

_ANYWHERE = (0, 1, 2, 3, 4, 5, 6)
_QUARTERS = (0, 3, 6, 9)


def _seven_slices(memory_mib: tuple[int, int, int, int]) -> tuple[FakeProfile, ...]:
    """An 80 GB GPU of seven slices: MiB of 1g.10gb, of 20 GB, of 40 GB and of the whole."""
    tenth, fifth, half, whole = memory_mib
    return (
        FakeProfile(0, 19, 1, 7, tenth, "1g.10gb", 1, _ANYWHERE),
        FakeProfile(1, 14, 2, 3, fifth, "2g.20gb", 2, (0, 2, 4)),
        FakeProfile(2, 9, 3, 2, half, "3g.40gb", 4, (0, 4)),
        FakeProfile(3, 5, 4, 1, half, "4g.40gb", 4, (0,)),
        FakeProfile(4, 0, 7, 1, whole, "7g.80gb", 8, (0,)),
        FakeProfile(7, 20, 1, 1, tenth, "1g.10gb+me", 1, _ANYWHERE),
        FakeProfile(9, 15, 1, 4, fifth, "1g.20gb", 2, (0, 2, 4, 6)),
    )


def a100_80gb_mig(number: int = 0) -> FakeGpu:
    """An A100 with three instances: 3g.40gb at 4, 1g.10gb at 0, 1g.10gb+me at 1."""
    return FakeGpu(
        uuid=f"GPU-a100-{number}",
        name="NVIDIA A100-SXM4-80GB",
        architecture=7,
        capability="8.0",
        total_mib=81920,
        minor=number,
        mig=True,
        profiles=_seven_slices((9728, 19968, 40192, 80896)),
        devices=[
            FakeMig(uuid=f"MIG-a100-{number}-3g", profile="3g.40gb", gpu_instance_id=2, start=4, size=4),
            FakeMig(uuid=f"MIG-a100-{number}-1g", profile="1g.10gb", gpu_instance_id=9, start=0),
            FakeMig(uuid=f"MIG-a100-{number}-me", profile="1g.10gb+me", gpu_instance_id=10, start=1),
        ],
    )


def h100(number: int = 0) -> FakeGpu:
    """An H100 whose MIG mode is off."""
    return FakeGpu(
        uuid=f"GPU-h100-{number}",
        name="NVIDIA H100 80GB HBM3",
        architecture=9,
        capability="9.0",
        total_mib=81559,
        minor=number,
        mig=False,
        profiles=_seven_slices((9984, 20096, 40448, 81152)),
    )


def a30(number: int = 0) -> FakeGpu:
    """An A30 in MIG mode, four slices, without instances."""
    return FakeGpu(
        uuid=f"GPU-a30-{number}",
        name="NVIDIA A30",
        architecture=7,
        capability="8.0",
        total_mib=24576,
        minor=number,
        mig=True,
        max_devices=4,
        profiles=(
            FakeProfile(0, 14, 1, 4, 5952, "1g.6gb", 1, (0, 1, 2, 3)),
            FakeProfile(1, 5, 2, 2, 11968, "2g.12gb", 2, (0, 2)),
            FakeProfile(3, 0, 4, 1, 24064, "4g.24gb", 4, (0,)),
            FakeProfile(7, 21, 1, 1, 5952, "1g.6gb+me", 1, (0, 1, 2, 3)),
            FakeProfile(8, 6, 2, 1, 11968, "2g.12gb+me", 2, (0, 2)),
        ),
    )


def rtx_pro_6000(number: int = 0) -> FakeGpu:
    """An RTX PRO 6000 in MIG mode, a grid of twelve units, one 1g.24gb at 9."""
    return FakeGpu(
        uuid=f"GPU-pro-{number}",
        name="NVIDIA RTX PRO 6000 Blackwell Server Edition",
        architecture=10,
        capability="12.0",
        total_mib=97887,
        minor=number,
        mig=True,
        max_devices=4,
        profiles=(
            FakeProfile(0, 14, 1, 4, 24192, "1g.24gb", 3, _QUARTERS),
            FakeProfile(1, 5, 2, 2, 48512, "2g.48gb", 6, (0, 6)),
            FakeProfile(3, 0, 4, 1, 97408, "4g.96gb", 12, (0,)),
            FakeProfile(7, 21, 1, 1, 24192, "1g.24gb+me", 3, _QUARTERS),
            FakeProfile(10, 47, 1, 4, 24192, "1g.24gb+gfx", 3, _QUARTERS),
            FakeProfile(11, 35, 2, 2, 48512, "2g.48gb+gfx", 6, (0, 6)),
            FakeProfile(12, 32, 4, 1, 97408, "4g.96gb+gfx", 12, (0,)),
            FakeProfile(13, 67, 1, 4, 24192, "1g.24gb-me", 3, _QUARTERS),
            FakeProfile(14, 66, 2, 2, 48512, "2g.48gb-me", 6, (0, 6)),
            FakeProfile(15, 65, 1, 1, 24192, "1g.24gb+me.all", 3, _QUARTERS),
            FakeProfile(16, 64, 2, 1, 48512, "2g.48gb+me.all", 6, (0, 6)),
        ),
        devices=[FakeMig(uuid=f"MIG-pro-{number}", profile="1g.24gb", gpu_instance_id=6, start=9, size=3)],
    )


def t4(number: int = 0) -> FakeGpu:
    """A T4: no MIG, and no row remapping."""
    return FakeGpu(
        uuid=f"GPU-t4-{number}",
        name="Tesla T4",
        architecture=6,
        capability="7.5",
        total_mib=15360,
        minor=number,
        remapped=None,
        retirement=0,
    )
