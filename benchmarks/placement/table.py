"""Our means beside the published ones, variant by variant, and the means over the variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.published_placement import PUBLISHED, TOLERANCE
from scheduler_ext.sim.simulation_report import Run, summary

LOADS = ("100", "130")
MEAN = "mean"


@dataclass(frozen=True, slots=True)
class Row:
    """One policy on one variant; `ours` and `published` in per cent by arrived load."""

    variant: str
    policy: str
    ours: dict[str, float]
    published: dict[str, float]
    fragmentation_percent: float | None
    decisions_per_second: float
    as_published: bool

    @property
    def agrees(self) -> bool | None:
        """Whether our figure is close enough to the published one; None if nothing was published or the run
        had other conditions.
        """
        told = "130" in self.published and "130" in self.ours
        if not told or not self.as_published or self.variant == MEAN:
            return None
        return abs(self.ours["130"] - self.published["130"]) <= TOLERANCE[self.policy]


def rows_of(runs: Sequence[Run], *, as_published: bool = True) -> list[Row]:
    """A row per variant and policy, then the means over the variants per policy.

    `as_published`: run with the tie-breaking and the target of the published comparison.
    """
    rows = [
        Row(
            mean["trace"],
            mean["policy"],
            mean["allocationPercent"],
            dict(PUBLISHED.get((mean["trace"], mean["policy"]), {})),
            mean["fragmentationPercentAt90"],
            mean["decisionsPerSecond"],
            as_published,
        )
        for mean in summary(runs)
    ]
    policies = dict.fromkeys(row.policy for row in rows)
    return rows + [_mean([row for row in rows if row.policy == policy]) for policy in policies]


def cells_of(row: Row) -> list[str]:
    """The row as text: ours, published and their difference at each load, then the rest."""
    cells = [row.variant, row.policy]
    for load in LOADS:
        ours, published = row.ours.get(load), row.published.get(load)
        cells += [_cell(ours), _cell(published)]
        cells.append("" if ours is None or published is None else f"{ours - published:+.2f}")
    verdict = {True: "yes", False: "NO", None: ""}[row.agrees]
    return [*cells, verdict, _cell(row.fragmentation_percent), f"{row.decisions_per_second:.0f}"]


HEADER = (
    "VARIANT",
    "POLICY",
    *(title for load in LOADS for title in (f"@{load} %", "PUBLISHED", "DIFFERENCE")),
    "AGREES",
    "FRAGMENTED % AT 90",
    "DECISIONS/S",
)


def _mean(rows: Sequence[Row]) -> Row:
    fragmentation = [row.fragmentation_percent for row in rows if row.fragmentation_percent is not None]
    published = [row.published for row in rows]
    return Row(
        MEAN,
        rows[0].policy,
        {load: _average([row.ours[load] for row in rows]) for load in rows[0].ours},
        # A mean over other variants would not be comparable.
        {load: _average([each[load] for each in published]) for load in LOADS} if all(published) else {},
        _average(fragmentation) if fragmentation else None,
        _average([row.decisions_per_second for row in rows]),
        rows[0].as_published,
    )


def _average(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
