"""Recommendations for GPU memory, on small clusters with an obvious answer."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_ext.features.idle.recommend.recommendations import recommendation_list
from scheduler_ext.wire.config import Configuration
from scheduler_ext.wire.times import seconds
from tests.kube_objects import SHARE, Json, gpu, gpu_node, holder, node, owned, pod, terminated
from tests.views.seen import state

WHOLE = "nvidia.com/gpu"
NOW = seconds("2026-11-20T12:00:00Z") or 0.0
DAY_AGO, HOUR_AGO = "2026-11-19T12:00:00Z", "2026-11-20T11:00:00Z"
DAY_S = 86400.0
ON_FIRST = {"devices.gpu.scheduler-ext.io/main": "GPU-0"}
LACKED = "torch.OutOfMemoryError: CUDA out of memory."


def since(started: str, each: Json) -> Json:
    each["status"]["startTime"] = started
    return each


def used(name: str, peak: int, **more: Any) -> Json:
    return {"uid": f"uid-{name}", "memoryMiB": min(peak, 100), "peakMiB": peak} | more


def share_node(*holders: Json, **device: Any) -> tuple[Json, Json]:
    labels = {"gpu.scheduler-ext.io/sharing": "memory"}
    return gpu_node("n", [gpu(0, holders=list(holders), **device)]), node(
        "n", {SHARE: "73728"}, labels=labels
    )


def share(name: str, mib: int, started: str = DAY_AGO) -> Json:
    return since(started, pod(name, {SHARE: str(mib)}, on="n", annotations=ON_FIRST))


def recommended(*objects: Json, min_age_s: float = DAY_S) -> list[dict[str, Any]]:
    """The recommendations of all containers, each with its workload."""
    found = recommendation_list(state(*objects), Configuration(), NOW, min_age_s)
    return [
        each | {"of": f"{item['targetRef']['kind']}/{item['targetRef']['name']}"}
        for item in found["items"]
        for each in item["recommendation"]["containerRecommendations"]
    ]


def one(*objects: Json, **options: float) -> dict[str, Any]:
    (found,) = recommended(*objects, **options)
    return found


@pytest.mark.parametrize(
    ("asks", "peak", "verdict", "target"),
    [
        pytest.param(16384, 6000, "lower", 6912, id="a third used: the peak and 15 %, rounded up"),
        pytest.param(8000, 6000, "lower", 6912, id="a tenth less is worth a restart"),
        pytest.param(4096, 6000, "raise", 6912, id="used more than it asks"),
        pytest.param(16384, 0, "lower", 256, id="unused"),
    ],
)
def test_a_share(asks: int, peak: int, verdict: str, target: int) -> None:
    found = one(*share_node(used("p", peak)), share("p", asks))
    assert (found["verdict"], found["target"], found["peakMiB"]) == (verdict, {SHARE: str(target)}, peak)


def test_what_a_smaller_share_frees() -> None:
    # Of 73,728 MiB for shares, worth 3.4 an hour, two pods free an eighth each.
    found = one(
        *share_node(used("web-0", 8000), used("web-1", 5000)),
        *(owned(share(name, 18688), "StatefulSet", "web") for name in ("web-0", "web-1")),
    )
    assert found["target"] == {SHARE: "9216"}
    assert (found["of"], found["pods"], found["observedPods"]) == ("StatefulSet/web", 2, 2)
    freed = {"memoryMiB": 2 * 9472, "gpus": 0.256944, "valuePerHour": 0.873611}
    assert found["frees"] == found["options"][0]["frees"] == freed


def test_too_young_to_tell() -> None:
    found = one(*share_node(used("p", 600)), share("p", 16384, HOUR_AGO))
    assert (found["verdict"], found["target"], found["peakMiB"]) == ("unknown", None, 600)
    assert found["reason"] == "seen for 1.0 h, of at least 24.0 h"
    assert one(*share_node(used("p", 600)), share("p", 16384, HOUR_AGO), min_age_s=60)["verdict"] == "lower"


def test_a_young_pod_that_used_more_than_it_asks_says_enough() -> None:
    assert one(*share_node(used("p", 6000)), share("p", 4096, HOUR_AGO))["verdict"] == "raise"


@pytest.mark.parametrize("peak", [pytest.param(3000, id="low"), pytest.param(None, id="unknown")])
def test_out_of_memory_never_leads_to_less(peak: int | None) -> None:
    holders = [used("p", peak)] if peak is not None else []
    found = one(*share_node(*holders), terminated(share("p", 10240, HOUR_AGO), LACKED))
    assert (found["verdict"], found["outOfMemory"], found["options"]) == ("raise", 1, [])
    # A fifth more than it asked, and never less.
    assert found["target"] == {SHARE: "12288"}
    assert int(found["lowerBound"][SHARE]) >= 10240
    assert found["uncappedTarget"] == ({SHARE: "3584"} if peak else None)


def test_the_pods_that_failed_count_after_their_end() -> None:
    job = terminated(share("old", 10240), LACKED, running=False)
    job["status"]["phase"] = "Failed"
    found = one(
        *share_node(used("new", 3000)), owned(job, "Job", "train"), owned(share("new", 10240), "Job", "train")
    )
    assert (found["verdict"], found["pods"], found["outOfMemory"]) == ("raise", 1, 1)


def test_a_failure_on_the_largest_gpu_says_that_nothing_is_larger() -> None:
    found = one(*share_node(used("p", 72000)), terminated(share("p", 73728), LACKED))
    assert (found["verdict"], found["target"]) == ("raise", {SHARE: "73728"})
    assert found["reason"] == "ran out of GPU memory once, and the cluster has nothing larger"


def two_containers(*devices: str) -> Json:
    each = share("p", 8192)
    each["spec"]["containers"].append({"name": "second", "resources": {"limits": {SHARE: "8192"}}})
    each["metadata"]["annotations"] = {
        f"devices.gpu.scheduler-ext.io/{name}": uuid
        for name, uuid in zip(("main", "second"), devices, strict=True)
    }
    return each


def test_containers_on_one_gpu_cannot_be_told_apart() -> None:
    found = recommended(*share_node(used("p", 3000)), two_containers("GPU-0", "GPU-0"))
    assert [(each["containerName"], each["peakMiB"], each["target"]) for each in found] == [
        ("main", None, None),
        ("second", None, None),
    ]
    assert "containers of the pod may use one GPU" in found[0]["reason"]


def test_containers_on_two_gpus_have_their_own_peaks() -> None:
    devices = [gpu(0, holders=[used("p", 3000)]), gpu(1, holders=[used("p", 5000)])]
    labels = {"gpu.scheduler-ext.io/sharing": "memory"}
    found = recommended(
        gpu_node("n", devices), node("n", {SHARE: "147456"}, labels=labels), two_containers("GPU-0", "GPU-1")
    )
    assert [(each["containerName"], each["peakMiB"]) for each in found] == [("main", 3000), ("second", 5000)]


# Whole GPUs


def whole(peak: int, count: int = 1, **device: Any) -> tuple[Json, Json]:
    devices = [gpu(i, holders=[holder("p"), used("p", peak - i)], **device) for i in range(count)]
    return gpu_node("n", devices), since(DAY_AGO, pod("p", {WHOLE: str(count)}, on="n"))


def wishing(objects: tuple[Json, Json], wish: str, value: str) -> tuple[Json, Json]:
    objects[1]["metadata"]["annotations"][f"gpu.scheduler-ext.io/{wish}"] = value
    return objects


SMALL = gpu_node("small", [gpu(7, model="T4", total=15360)])
SHARED = (
    gpu_node("shared", [gpu(8, model="L4", total=20000)]),
    node("shared", {SHARE: "18000"}, labels={"gpu.scheduler-ext.io/sharing": "memory"}),
)
SPOT = (
    gpu_node("spot", [gpu(10)]),
    node("spot", {WHOLE: "1"}, labels={"gpu.scheduler-ext.io/value": "1"}),
)
SLICED = gpu_node(
    "sliced",
    [
        gpu(
            9,
            mig={
                "enabled": True,
                "instances": [
                    {"uuid": "MIG-0", "profile": "3g.40gb", "start": 0, "size": 4},
                    {"uuid": "MIG-4", "profile": "1g.10gb", "start": 4, "size": 1},
                ],
            },
        )
    ],
    migStrategy="mixed",
)


@pytest.mark.parametrize(
    ("peak", "others", "options"),
    [
        pytest.param(14000, (SMALL,), [], id="the cheaper model is too small"),
        pytest.param(6000, SPOT, [], id="the same model on a cheaper node is no other request"),
        pytest.param(20000, (SLICED,), [("mig", "A100-80GB", 0.68)], id="a larger one"),
        pytest.param(
            6000,
            (SMALL, *SHARED, SLICED),
            [("share", "L4", 3.0928), ("model", "T4", 2.9), ("mig", "A100-80GB", 2.72)],
            id="the one that frees most value comes first",
        ),
    ],
)
def test_a_whole_gpu(peak: int, others: tuple[Json, ...], options: list[tuple[str, str, float]]) -> None:
    found = one(*whole(peak), *others)
    assert [
        (each["kind"], each["model"], each["frees"]["valuePerHour"]) for each in found["options"]
    ] == options
    assert found["verdict"] == ("lower" if options else "keep")


def test_several_whole_gpus_can_only_be_of_another_model() -> None:
    two = gpu_node("two", [gpu(i, model="T4", total=15360) for i in (11, 12)])
    found = one(*whole(6000, 2), two, *SHARED, SLICED)
    assert [(each["kind"], each["resources"]) for each in found["options"]] == [("model", {WHOLE: "2"})]
    assert (found["peakMiB"], found["frees"]) == (
        6000,
        {"memoryMiB": 133120, "gpus": 0.0, "valuePerHour": 5.8},
    )


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param((*whole(6000, 2), SMALL), id="two GPUs of a model with one on each node"),
        pytest.param(
            (*whole(6000), gpu_node("amd", [gpu(7, model="MI210", vendor="amd", total=65536)])),
            id="a GPU of another vendor",
        ),
        pytest.param(
            (
                *wishing(whole(6000), "min-compute-capability", "8.0"),
                gpu_node("old", [gpu(7, model="T4", total=15360, computeCapability="7.5")]),
            ),
            id="a compute capability below the pod's wish",
        ),
    ],
)
def test_only_what_the_pod_can_use_is_an_option(objects: tuple[Json, ...]) -> None:
    assert one(*objects)["options"] == []


def test_busy_gpus_are_not_replaced_by_smaller_ones() -> None:
    found = one(*whole(6000, utilizationPercent=80), SMALL)
    assert (found["verdict"], found["options"]) == ("keep", [])
    assert found["reason"] == "used 6000 of 81920 MiB, and computed 80 % of the time"


@pytest.mark.parametrize(
    ("percent", "note"),
    [
        pytest.param(3, "computed 3 % of about the last minute: it may suit", id="quiet"),
        pytest.param(None, "unknown how much its GPUs compute", id="unknown"),
    ],
)
def test_a_note_says_what_utilisation_may_mean(percent: int | None, note: str) -> None:
    (said,) = one(*whole(6000, utilizationPercent=percent), SMALL)["notes"]
    assert note in said


# MIG


def sliced(profile: str, peak: int, **status: Any) -> tuple[Json, Json]:
    instances = [
        {"uuid": "MIG-0", "profile": "3g.40gb", "start": 0, "size": 4},
        {"uuid": "MIG-4", "profile": "2g.20gb", "start": 4, "size": 2},
        {"uuid": "MIG-6", "profile": "1g.10gb", "start": 6, "size": 1},
    ]
    for each in instances:
        if each["profile"] == profile:
            each["holder"] = used("p", peak)
    device = gpu(0, mig={"enabled": True, "instances": instances})
    asking = since(DAY_AGO, pod("p", {f"nvidia.com/mig-{profile}": "1"}, on="n"))
    return gpu_node("n", [device], **({"migStrategy": "mixed"} | status)), asking


@pytest.mark.parametrize(
    ("profile", "peak", "verdict", "target"),
    [
        pytest.param("3g.40gb", 6000, "lower", "1g.10gb", id="the smallest instance that holds the target"),
        pytest.param("1g.10gb", 6000, "keep", "1g.10gb", id="the smallest one already"),
        pytest.param("2g.20gb", 19000, "raise", "3g.40gb", id="no margin"),
        pytest.param("3g.40gb", 39000, "keep", "3g.40gb", id="no margin, but none larger"),
    ],
)
def test_a_mig_instance(profile: str, peak: int, verdict: str, target: str) -> None:
    found = one(*sliced(profile, peak))
    assert (found["verdict"], found["target"]) == (verdict, {f"nvidia.com/mig-{target}": "1"})


def layout(name: str, model: str, *instances: Json) -> Json:
    """A node with one GPU that has these MIG instances of one slot."""
    mig = {
        "enabled": True,
        "instances": [
            {"uuid": f"MIG-{name}-{i}", "start": i, "size": 1} | each for i, each in enumerate(instances)
        ],
    }
    device = gpu(0, f"GPU-{name}", model=model, total=40960 if "40GB" in model else 81920, mig=mig)
    return gpu_node(name, [device], migStrategy="mixed")


def test_an_instance_costs_its_part_of_its_own_gpu() -> None:
    """Other GPUs of the model may have another layout; the same instance there is no other request."""
    one_g = {"profile": "1g.10gb"}
    mine = layout("n", "A100-80GB", one_g | {"holder": used("p", 3000)})
    asking = since(DAY_AGO, pod("p", {"nvidia.com/mig-1g.10gb": "1"}, on="n"))
    halves = layout("halves", "A100-80GB", one_g, one_g)
    found = one(mine, halves, asking)
    assert (found["verdict"], found["options"]) == ("keep", [])
    smaller = layout("smaller", "A100-40GB", {"profile": "1g.5gb"}, {"profile": "1g.5gb"})
    # All of an A100-80GB, for half of an A100-40GB.
    assert one(mine, halves, smaller, asking)["frees"]["valuePerHour"] == pytest.approx(3.4 - 1.35)


def test_what_pods_on_nodes_with_their_own_prices_free() -> None:
    """Each pod frees the price of its node."""
    pods = [
        since(DAY_AGO, owned(pod(name, {WHOLE: "1"}, on=on), "StatefulSet", "s"))
        for name, on in (("p", "n"), ("q", "spot"))
    ]
    spot = gpu_node("spot", [gpu(10, holders=[holder("q"), used("q", 5000)])])
    nodes = (gpu_node("n", [gpu(0, holders=[holder("p"), used("p", 6000)])]), spot, SPOT[1])
    assert one(*nodes, SMALL, *pods)["frees"]["valuePerHour"] == pytest.approx(3.4 + 1.0 - 2 * 0.5)


@pytest.mark.parametrize("strategy", ["none", "single"])
def test_a_pod_on_a_node_that_offers_no_instance_any_more_keeps_its_own(strategy: str) -> None:
    for peak in (6000, 19000):
        found = one(*sliced("2g.20gb", peak, migStrategy=strategy))
        assert (found["verdict"], found["target"]) == ("keep", {"nvidia.com/mig-2g.20gb": "1"})


def test_an_instance_that_ran_out_of_memory_leads_to_a_larger_one() -> None:
    report, asking = sliced("2g.20gb", 6000)
    found = one(report, terminated(asking, LACKED))
    assert (found["verdict"], found["target"]) == ("raise", {"nvidia.com/mig-3g.40gb": "1"})


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        pytest.param(
            (
                gpu_node(
                    "n",
                    [gpu(0, holders=[used("p", 10)])],
                    sharing={"strategy": "time-slicing", "replicas": 4},
                ),
                since(DAY_AGO, pod("p", {WHOLE: "1"}, on="n")),
            ),
            "shares GPUs by time or MPS",
            id="a time slice",
        ),
        pytest.param(
            (
                node("n", {WHOLE: "8"}, labels={"nvidia.com/gpu.product": "NVIDIA-L4"}),
                since(DAY_AGO, pod("p", {WHOLE: "1"}, on="n")),
            ),
            "no agent reports the GPUs",
            id="a node without a report",
        ),
        pytest.param(
            (
                *share_node(used("p", 10)),
                since(DAY_AGO, pod("p", {WHOLE: "1", SHARE: "10"}, on="n")),
            ),
            "asks several kinds",
            id="a share and a GPU",
        ),
    ],
)
def test_what_cannot_be_compared(objects: tuple[Json, ...], reason: str) -> None:
    found = one(*objects)
    assert found["verdict"] == "unknown"
    assert reason in found["reason"]


def test_pods_without_gpus_and_waiting_pods_have_none() -> None:
    assert recommended(*share_node(), pod("cpu", {"cpu": "1"}, on="n"), pod("waits", {SHARE: "1024"})) == []


@pytest.mark.parametrize(
    ("objects", "target"),
    [
        pytest.param((*share_node(used("p", 9300)), share("p", 10000)), 10752, id="a share, by a little"),
        pytest.param(
            (
                *whole(40000, model="A100-40GB", total=40960, utilizationPercent=80),
                gpu_node("large", [gpu(7)]),
            ),
            46080,
            id="a GPU that computes",
        ),
    ],
)
def test_a_request_below_its_target_is_raised(objects: tuple[Json, ...], target: int) -> None:
    found = one(*objects)
    assert (found["verdict"], found["target"]) == ("raise", {SHARE: str(target)})
    assert found["reason"].endswith(f": with a margin it needs {target}")


def test_a_gpu_with_nearly_the_margin_is_its_own_target() -> None:
    found = one(*whole(36000, model="A100-40GB", total=40960), gpu_node("large", [gpu(7)]))
    assert (found["verdict"], found["target"]) == ("keep", {WHOLE: "1"})


def test_the_newest_request_of_a_workload_counts() -> None:
    found = one(
        *share_node(used("a", 6000), used("b", 100)),
        owned(share("a", 30000), "StatefulSet", "web"),
        owned(share("b", 6912, HOUR_AGO), "StatefulSet", "web"),
    )
    assert (found["request"], found["verdict"], found["observedSeconds"]) == ({SHARE: 6912}, "keep", DAY_S)


def test_a_failure_with_less_memory_than_now_asks_for_no_more() -> None:
    job = terminated(share("old", 5120), LACKED, running=False)
    job["status"]["phase"] = "Failed"
    found = one(
        *share_node(used("new", 6000)), owned(job, "Job", "train"), owned(share("new", 10240), "Job", "train")
    )
    assert (found["verdict"], found["outOfMemory"], found["options"]) == ("keep", 1, [])
    assert found["reason"] == "used 6000 of 10240 MiB, and ran out of GPU memory once with another request"
