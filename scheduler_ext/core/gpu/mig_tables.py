"""Known MIG profiles of each GPU model, for GPUs whose node reports no placements of its own: a driver may
change a model's profiles. Collected from NVIDIA's MIG guide, mig-parted's device table and transcripts of
`nvidia-smi mig -lgip` and `-lgipp`. Placements of the B200, GB200, B300 and GB300 follow from the memory
fractions of their names; those of RTX PRO 5000 and 4500 are unknown. Unmeasured memory is None."""

from scheduler_ext.core.gpu.mig_profile import Profile

_UNMEASURED = (None,) * 5


def _seven_slices(gb: tuple[str, ...], memory_mib: tuple[int | None, ...]) -> tuple[int, tuple[Profile, ...]]:
    """Return grid and profiles of a GPU with seven compute slices and eight memory slices. `gb` is in the
    names of one, two, four and eight memory slices; `memory_mib` is of 1g, double 1g, 2g, 3g and 4g, 7g."""
    eighth, quarter, half, full = gb
    single_mib, double_mib, quarter_mib, half_mib, full_mib = memory_mib
    anywhere = tuple(range(7))
    return 8, (
        Profile(f"1g.{eighth}gb", 1, anywhere, 7, single_mib),
        Profile(f"1g.{eighth}gb+me", 1, anywhere, 1, single_mib),
        Profile(f"1g.{quarter}gb", 2, (0, 2, 4, 6), 4, double_mib),
        Profile(f"2g.{quarter}gb", 2, (0, 2, 4), 3, quarter_mib),
        Profile(f"3g.{half}gb", 4, (0, 4), 2, half_mib),
        Profile(f"4g.{half}gb", 4, (0,), 1, half_mib),
        Profile(f"7g.{full}gb", 8, (0,), 1, full_mib),
    )


_A30 = (
    Profile("1g.6gb", 1, (0, 1, 2, 3), 4, 5952),
    Profile("1g.6gb+me", 1, (0, 1, 2, 3), 1, 5952),
    Profile("2g.12gb", 2, (0, 2), 2, 11968),
    Profile("2g.12gb+me", 2, (0, 2), 1, 11968),
    Profile("4g.24gb", 4, (0,), 1, 24064),
)
_RTX_PRO_6000 = (
    Profile("1g.24gb", 3, (0, 3, 6, 9), 4, 24192),
    Profile("1g.24gb+me", 3, (0, 3, 6, 9), 1, 24192),
    Profile("1g.24gb+gfx", 3, (0, 3, 6, 9), 4, 24192),
    Profile("1g.24gb+me.all", 3, (0, 3, 6, 9), 1, 24192),
    Profile("1g.24gb-me", 3, (0, 3, 6, 9), 4, 24192),
    Profile("2g.48gb", 6, (0, 6), 2, 48512),
    Profile("2g.48gb+gfx", 6, (0, 6), 2, 48512),
    Profile("2g.48gb+me.all", 6, (0, 6), 1, 48512),
    Profile("2g.48gb-me", 6, (0, 6), 2, 48512),
    Profile("4g.96gb", 12, (0,), 1, 97408),
    Profile("4g.96gb+gfx", 12, (0,), 1, 97408),
)

# Table name -> (placement units of the grid, profiles).
FALLBACK_PROFILES: dict[str, tuple[int, tuple[Profile, ...]]] = {
    "A30-24GB": (4, _A30),
    "A100-40GB": _seven_slices(("5", "10", "20", "40"), (4864, 9856, 9856, 19968, 40192)),
    "A100-80GB": _seven_slices(("10", "20", "40", "80"), (9728, 19968, 19968, 40192, 80896)),
    "H100-80GB": _seven_slices(("10", "20", "40", "80"), (9984, 20096, 20096, 40448, 81152)),
    "H100-94GB": _seven_slices(("12", "24", "47", "94"), (None, None, None, 47488, 95360)),
    "H100-96GB": _seven_slices(("12", "24", "48", "96"), (11264, 23552, 23552, 47616, 95232)),
    "H20-96GB": _seven_slices(("12", "24", "48", "96"), _UNMEASURED),
    "H200-141GB": _seven_slices(("18", "35", "71", "141"), (16384, None, 33280, None, 143360)),
    "GH200-144GB": _seven_slices(("18", "36", "72", "144"), _UNMEASURED),
    "B200-180GB": _seven_slices(("23", "45", "90", "180"), _UNMEASURED),
    "GB200-186GB": _seven_slices(("23", "47", "93", "186"), _UNMEASURED),
    "GB200-189GB": _seven_slices(("24", "47", "95", "189"), _UNMEASURED),
    "B300-269GB": _seven_slices(("34", "67", "135", "269"), _UNMEASURED),
    "GB300-278GB": _seven_slices(("35", "70", "139", "278"), _UNMEASURED),
    "RTX-PRO-6000-96GB": (12, _RTX_PRO_6000),
}
