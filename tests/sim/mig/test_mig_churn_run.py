"""MIG churn: arrivals are accepted or rejected, legally, and equally for equal seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from scheduler_ext.core.cache.observed_demand import ObservedDemand
from scheduler_ext.core.forecast.mig_value import expected_mix
from scheduler_ext.core.gpu.mig_geometry import Geometry, geometry_from_report
from scheduler_ext.core.gpu.mig_profile import Profile
from scheduler_ext.core.request.pod_kinds import TaskClass
from scheduler_ext.sim.mig.mig_churn_run import MigChurn, MigGpus, OnlineTarget, run_mig_churn
from scheduler_ext.sim.mig.mig_inputs import parse_mix, read_geometry
from scheduler_ext.sim.mig.mig_policies import MIG_POLICIES
from scheduler_ext.sim.sampling import Sampling
from tests.core.gpu.test_mig_profile_oracle import any_geometry, may_join
from tests.sim.small import without_pace

A100 = read_geometry("A100-80GB")
A30 = read_geometry("A30-24GB")
ONE_SIZE = geometry_from_report(4, [Profile("1g.6gb", 1, (0, 1, 2, 3), 4, None)])


def churn(
    geometry: Geometry = A100, mix: str = "uniform", arrivals: int = 400, **changes: object
) -> MigChurn:
    made = MigChurn(
        geometry=geometry, mix=parse_mix(mix, geometry), trace=mix, gpus=4, arrivals=arrivals, load=1.2
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", list(MIG_POLICIES))
@pytest.mark.parametrize("target", ["mix", "online"])
def test_arriving_pods_are_accepted_or_rejected(policy: str, target: str) -> None:
    run = run_mig_churn(churn(target=target), policy, 42)
    assert run.arrived_milli == run.allocated_milli + run.rejected_milli
    assert sum(run.rejected_by_class.values()) == run.rejected_milli
    assert run.slice_acceptance_percent == pytest.approx(100 * run.allocated_milli / run.arrived_milli)
    assert 0 < run.allocated_milli < run.arrived_milli


@pytest.mark.parametrize("policy", list(MIG_POLICIES))
def test_the_same_seed_the_same_result(policy: str) -> None:
    first, again, other = (run_mig_churn(churn(), policy, seed) for seed in (42, 42, 43))
    assert without_pace(first) == without_pace(again)
    assert without_pace(first) != structs.replace(without_pace(other), seed=42)


@given(any_geometry, st.sampled_from(list(MIG_POLICIES)), st.integers(0, 99), st.sampled_from((100, 1)))
def test_no_geometry_leads_to_an_illegal_placement(
    geometry: Geometry, policy: str, seed: int, sampled_percent: int
) -> None:
    mix = ",".join(f"{profile.name}=1" for profile in geometry.profiles)
    few = churn(geometry, mix, arrivals=150, gpus=3, gpus_per_node=1, sampled_percent=sampled_percent)
    # An illegal one raises.
    with patch.object(Sampling, "least", 1):
        run = run_mig_churn(few, policy, seed)
    assert run.arrived_milli == run.allocated_milli + run.rejected_milli + (run.waiting_milli or 0)


@given(any_geometry, st.data())
def test_gpus_take_what_the_rules_let_join(geometry: Geometry, data: st.DataObject) -> None:
    gpus = MigGpus(geometry, 2)
    held: list[list[tuple[str, int]]] = [[], []]
    for _ in range(data.draw(st.integers(1, 8))):
        index = data.draw(st.integers(0, len(geometry.profiles) - 1))
        gpu, profile = data.draw(st.integers(0, 1)), geometry.profiles[index]
        start = data.draw(st.sampled_from(profile.starts))
        if may_join(geometry, held[gpu], profile.name, start):
            gpus.create(gpu, index, start)
            held[gpu].append((profile.name, start))
        else:
            with pytest.raises(ValueError, match="cannot lie"):
                gpus.create(gpu, index, start)
        leaves: bool = data.draw(st.booleans())
        if held[gpu] and leaves:
            name, start = held[gpu].pop()
            gpus.destroy(gpu, [p.name for p in geometry.profiles].index(name), start)
        sizes = {profile.name: profile.size for profile in geometry.profiles}
        assert gpus.held_units == sum(sizes[name] for instances in held for name, _ in instances)


def test_with_one_size_the_loss_is_erlangs() -> None:
    # Eight servers at an offered load of eight lose 23.56 % (Erlang's B formula).
    run = run_mig_churn(churn(ONE_SIZE, arrivals=12_000, gpus=2, load=1.0), "first-fit", 1)
    assert run.slice_acceptance_percent == pytest.approx(100 - 23.56, abs=1.5)
    # Little's law: held instances equal accepted ones, for a lifetime of 1.
    assert run.mean_allocation_percent == pytest.approx(run.slice_acceptance_percent, abs=2.0)


def test_an_online_target_is_what_the_server_expects_and_follows_a_drift() -> None:
    mixes: list[Mapping[str, float]] = []
    online, server = OnlineTarget(mixes.append, A30), ObservedDemand()
    names = [profile.name for profile in A30.profiles]
    small, large = names.index("1g.6gb"), names.index("4g.24gb")
    for came, profile in enumerate([small] * 16 + [large] * 9000):
        before = len(mixes)
        online.arrived(profile)
        server.came(TaskClass(mig=((names[profile], 1),)), created_at=None)
        if mixes[before:]:
            assert mixes[before:] == [expected_mix(A30, server.workload())], came
    # Some of the first pods remain among few steps, hardly any at the end.
    assert 0.5 < mixes[0]["1g.6gb"] < 0.7
    assert mixes[-1]["4g.24gb"] > 0.95
    assert 20 < len(mixes) < 60


def test_a_profile_at_its_cap_is_barred_whatever_is_free() -> None:
    gpus = MigGpus(A100, 2)
    media = [profile.name for profile in A100.profiles].index("1g.10gb+me")
    plain = [profile.name for profile in A100.profiles].index("1g.10gb")
    gpus.create(0, media, 0)
    assert np.array_equal(gpus.masks_for(media), [0xFF, 0])
    assert np.array_equal(gpus.masks_for(plain), [0x01, 0])


def test_every_policy_meets_the_same_pods() -> None:
    assert len({run_mig_churn(churn(), policy, 42).arrived_milli for policy in list(MIG_POLICIES)}) == 1
