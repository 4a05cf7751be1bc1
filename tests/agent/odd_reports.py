"""Statuses as agents write them, with mistakes of the kind that a bug in an agent makes."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.agent.gpunode_reports import status_of, summary_of
from tests.gpu_strategies import reports
from tests.kube_objects import Json


def _of_memory(draw: DrawFn, device: Json, status: Json) -> None:
    memory = device["memory"]
    memory["usedMiB"] = memory["totalMiB"] * 101 // 100 - memory["reservedMiB"] + draw(st.integers(-1, 1))


def _of_unaccounted_memory(draw: DrawFn, device: Json, status: Json) -> None:
    device["memory"]["unaccountedMiB"] = device["memory"]["usedMiB"] + draw(st.integers(-1, 1))


def _of_a_holder(draw: DrawFn, device: Json, status: Json) -> None:
    """One that uses about as much as there is."""
    memory_mib = draw(st.sampled_from((None, *(device["memory"]["totalMiB"] + more for more in (-1, 0, 1)))))
    device["holders"] = [*(device["holders"] or ()), {"uid": "u", "memoryMiB": memory_mib}]


def _of_an_instances_holder(draw: DrawFn, device: Json, status: Json) -> None:
    instance = draw(st.sampled_from(device["mig"]["instances"]))
    instance["holder"] = {"uid": "u", "memoryMiB": device["memory"]["totalMiB"] + draw(st.integers(-1, 1))}


def _of_an_instance(draw: DrawFn, device: Json, status: Json) -> None:
    names = ["1g.10gb", "2g.20gb", *(profile["name"] for profile in device["mig"]["profiles"])]
    wrong = draw(st.sampled_from(device["mig"]["instances"]))
    wrong |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "start": st.one_of(st.none(), st.integers(0, 9)),
                "size": st.one_of(st.none(), st.integers(1, 5)),
                "profile": st.sampled_from(names),
            },
        )
    )


def _of_an_instances_uuid(draw: DrawFn, device: Json, status: Json) -> None:
    """That of a GPU, or of any instance of the node."""
    wrong = draw(st.sampled_from(device["mig"]["instances"]))
    others = [instance["uuid"] for each in status["devices"] for instance in _instances(each)]
    wrong["uuid"] = draw(st.sampled_from([*others, *(each["uuid"] for each in status["devices"])]))


def _of_a_profile(draw: DrawFn, device: Json, status: Json) -> None:
    names = [profile["name"] for profile in device["mig"]["profiles"]]
    wrong = draw(st.sampled_from(device["mig"]["profiles"]))
    wrong |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "size": st.integers(0, 9),
                "starts": st.lists(st.integers(0, 9), max_size=9),
                "maxInstances": st.integers(0, 1),
                "name": st.sampled_from([*names, "3c.3g.40gb", "1c.3g.40gb"]),
            },
        )
    )


def _of_the_grid(draw: DrawFn, device: Json, status: Json) -> None:
    device["mig"]["gridSize"] = draw(st.sampled_from((None, 0, 1, 7, 8, 9, 12, 16)))


def _of_the_mode(draw: DrawFn, device: Json, status: Json) -> None:
    device["mig"]["enabled"] = draw(st.sampled_from((None, False)))


def _of_identity(draw: DrawFn, device: Json, status: Json) -> None:
    field = draw(st.sampled_from(("uuid", "index")))
    device[field] = draw(st.sampled_from(status["devices"]))[field]


def _instances(device: Json) -> list[Json]:
    found: list[Json] = (device["mig"] or {}).get("instances") or []
    return found


@st.composite
def statuses(draw: DrawFn) -> Json:
    """One with up to three mistakes."""
    status = status_of(draw(reports()))
    devices = status["devices"]
    for _ in range(draw(st.sampled_from((0, 1, 1, 2, 3))) if devices else 0):
        device = draw(st.sampled_from(devices))
        mistakes = [_of_memory, _of_unaccounted_memory, _of_a_holder, _of_identity]
        if device["mig"]:
            mistakes += [_of_the_grid, _of_the_mode]
        if _instances(device):
            mistakes += [_of_an_instance, _of_an_instance, _of_an_instances_uuid, _of_an_instances_holder]
        if device["mig"] and device["mig"]["profiles"]:
            mistakes.append(_of_a_profile)
        draw(st.sampled_from(mistakes))(draw, device, status)
    return status | {"summary": summary_of(devices)}
