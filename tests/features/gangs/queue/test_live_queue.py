"""queue: of a running extender through a port-forward, and without one."""

from __future__ import annotations

from tests.cli.test_live_commands import World, beside, product, say_the_same, without

__all__ = ["beside", "product", "without"]


def test_an_extender_and_the_objects_say_the_same(beside: World) -> None:
    say_the_same(beside, "queue")


def test_of_a_namespace(without: World) -> None:
    assert without.run("queue", "-n", "empty")[2].endswith("No pods wait for GPUs in namespace empty\n")


def test_the_queue_says_what_is_not_known(beside: World) -> None:
    _, out, err = beside.run("queue")
    assert "Note: planning is off (nominate.enabled)" in out
    assert "Note: past run times are not remembered (queue.runTimes is 0)" in out
    assert err == ""
    _, out, _ = beside.run("queue", "--from", "cluster")
    assert "Note: without an extender, neither planned nodes nor past run times are known" in out
