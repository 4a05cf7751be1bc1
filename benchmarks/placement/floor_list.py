"""The promised margins of placement: every floor, as data."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scheduler_ext.sim.generator import FAMILIES
from scheduler_ext.sim.placement_policy import PUBLISHED_TIES
from scheduler_ext.sim.policies import POLICIES

OURS = "default"
INFLATION, CHURN, MIG = "inflation", "churn", "mig"
# The families of generated clusters, and the margin to the best policy that is enough.
FAMILY, _BEHIND = "families", -0.1


@dataclass(frozen=True, slots=True)
class Condition:
    """How runs are made, beyond their input: values for the Experiment fields of these names."""

    protocol: str = INFLATION
    load: float = 1.3
    target: str = "trace"
    ties: str = "first"
    points: bool = False
    constrain_percent: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The margin over a reference that the default policy must have, in points.

    `group` is the name by which it is requested; `at` the arrived load of inflation that counts, in per
    cent. Of the traces whose names match `traces` the mean of the margins counts, or the least. The
    reference is the best of `references`, under the condition `against` if that is another one, or a
    `figure` in per cent.
    """

    group: str
    what: str
    condition: Condition
    at: str | None = None
    traces: tuple[str, ...] = ("*",)
    of_traces: str = "least"
    references: tuple[str, ...] = ("fgd",)
    against: Condition | None = None
    figure: float | None = None
    wanted: float = 0.0


_EXPECTED = Condition()
_AS_PUBLISHED = Condition(ties=PUBLISHED_TIES)
_OTHERS = tuple(name for name in POLICIES if name not in (OURS, "random", "least-allocated"))
_CHURN = Condition(protocol=CHURN, load=1.1, ties=PUBLISHED_TIES)
_MIG = Condition(protocol=MIG, load=1.0)
# The generator's clusters are both kinds: a tenth of their pods accept only some models.
_GENERATED = "generated*"
_MIG_REFERENCES = ("first-fit", "best-fit", "mfi", "fgd")
_MIG_ACCEPTANCE_PERCENT = {"uniform": 90.7, "skew-small": 91.3, "skew-big": 90.2, "bimodal": 89.1}


def _inflation(
    group: str, what: str, condition: Condition, mean: dict[str, float], least: float = 0.0
) -> tuple[Floor, ...]:
    """Means of all traces, wanted by load, and the least margin on any trace."""
    return tuple(
        Floor(
            group=group,
            what=f"{what}, {which} of the traces at {load} %",
            condition=condition,
            at=load,
            of_traces=which,
            wanted=wanted if which == "mean" else least,
        )
        for which in ("mean", "least")
        for load, wanted in mean.items()
    )


FLOORS: tuple[Floor, ...] = (
    *_inflation(INFLATION, "the trace's own pods expected", _EXPECTED, {"100": 0.6, "130": 0.5}),
    *_inflation(
        "early", "before all is taken, the trace's own pods expected", Condition(load=0.92), {"92": 0.0}
    ),
    *_inflation(
        "first-300",
        "the first 300 pods expected",
        Condition(target="first:300"),
        {"100": 0.2, "130": 0.2},
        least=-0.2,
    ),
    *_inflation("online", "what came before expected", Condition(target="online"), {"100": 0.0, "130": 0.0}),
    *(
        Floor(
            group="ties",
            what=f"random ties and 0 to 10 points, mean of the traces at {load} %",
            condition=Condition(ties="random", points=True),
            at=load,
            of_traces="mean",
            references=(OURS,),
            against=_EXPECTED,
            wanted=-0.1,
        )
        for load in ("100", "130")
    ),
    Floor(group=CHURN, what="churn", condition=_CHURN, traces=("default", _GENERATED)),
    Floor(
        group=CHURN,
        what="churn where pods want models",
        condition=_CHURN,
        traces=("gpuspec*", _GENERATED),
        references=("fgd", "random"),
    ),
    Floor(
        group=CHURN,
        what="churn where 33 % of the GPU pods want models",
        condition=replace(_CHURN, constrain_percent=33.0),
        traces=("default", _GENERATED),
        references=("fgd", "random"),
        wanted=-0.05,
    ),
    *(
        Floor(
            group=FAMILY,
            what=f"{name} clusters at {load} %",
            condition=_AS_PUBLISHED,
            at=load,
            traces=(name,),
            references=_OTHERS,
            wanted=_BEHIND,
        )
        for name in FAMILIES
        for load in ("100", "130")
    ),
    *(
        Floor(
            group=FAMILY,
            what=f"{name} clusters in churn",
            condition=_CHURN,
            traces=(name,),
            wanted=_BEHIND,
        )
        for name in FAMILIES
    ),
    *(
        Floor(
            group=MIG,
            what="slices of MIG accepted",
            condition=_MIG,
            traces=(mix,),
            figure=percent,
            wanted=0.2,
        )
        for mix, percent in _MIG_ACCEPTANCE_PERCENT.items()
    ),
    *(
        Floor(
            group=MIG,
            what="slices of MIG accepted, beside the best",
            condition=_MIG,
            traces=(mix,),
            references=_MIG_REFERENCES,
            wanted=-0.1,
        )
        for mix in _MIG_ACCEPTANCE_PERCENT
    ),
)
GROUPS = tuple(dict.fromkeys(floor.group for floor in FLOORS))
MIXES = tuple(_MIG_ACCEPTANCE_PERCENT)
