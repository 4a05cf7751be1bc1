"""The benchmark of nominated pods, on a small cluster: its phases match their names."""

from __future__ import annotations

from benchmarks.live_nominated import PHASES, measure


def test_each_phase_is_measured() -> None:
    report = measure(nodes=12, rounds=1, seconds=0.2)
    # Each node is in a state of its own, and there is the one of unknown nodes.
    assert report["distinctStates"] == 13
    assert list(report["phases"]) == list(PHASES)
    for phase, figures in report["phases"].items():
        assert figures["requests"] > 0
        assert figures["p99Us"] >= figures["p50Us"] > 0
        assert ("publicationP50Us" in figures) == (phase != "still")
