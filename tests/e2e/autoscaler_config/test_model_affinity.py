"""The admission policy of the component model-affinity on a real API server: the annotation of a pod as node
affinity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from scheduler_ext.core.gpu.model_table import MODEL_ROWS
from scheduler_ext.core.gpu.models import canonical_model, normalise_model
from tests.e2e.cluster.api import Json, eventually
from tests.e2e.installation import MANIFESTS
from tests.e2e.shares.share_cluster import NODE, ShareCluster, container, share
from tests.kube_objects import ANNOTATION

POLICY = MANIFESTS / "components" / "model-affinity" / "policy.yaml"
MODEL = f"{ANNOTATION}model"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GPU = {"nvidia.com/gpu": "1"}
A100 = ["A100-40GB", "A100-80GB"]
UNLABELLED = {"key": MODEL, "operator": "DoesNotExist"}
IN_ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
ON_NODE = {"key": "metadata.name", "operator": "In", "values": [NODE]}


@pytest.fixture(scope="module")
def admitting(shares: ShareCluster) -> Iterator[ShareCluster]:
    plane = shares.plane
    plane.kubectl("apply", "--server-side", "--validate=strict", "--warnings-as-errors", "-f", POLICY)
    eventually(lambda: terms(admitted(shares, "T4")) == wished("T4"), "the policy works")
    yield shares
    plane.kubectl("delete", "-f", POLICY)


def admitted(cluster: ShareCluster, model: str, limits: Json | None = None, **spec: Any) -> Json:
    """A pod with a GPU, or other limits, as the API server stores it."""
    main = container(limits=GPU if limits is None else limits)
    return cluster.create(
        cluster.pod(main, annotations={MODEL: model}, **({"schedulerName": "gpu-scheduler"} | spec))
    )


def terms(pod: Json) -> list[Json]:
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    found: list[Json] = affinity.get(REQUIRED, {}).get("nodeSelectorTerms", [])
    return found


def of_models(*models: str) -> Json:
    return {"key": MODEL, "operator": "In", "values": list(models)}


def wished(*models: str) -> list[Json]:
    """The terms of a pod without own ones."""
    return [{"matchExpressions": [each]} for each in (of_models(*models), UNLABELLED)]


def requiring(*own: Json) -> Json:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(own)}}}}


@pytest.mark.parametrize(
    ("annotation", "models"),
    [
        pytest.param("H100-80GB", ["H100-80GB"], id="a model"),
        pytest.param("a100", A100, id="a family in lower case is its models"),
        pytest.param(" H100-94GB ,A100,a100-80gb", [*A100, "H100-94GB"], id="several names, with blanks"),
        pytest.param("NVIDIA A100-SXM4-80GB", [], id="a spelling that the extender alone knows"),
        pytest.param("A100,NVIDIA H100", [], id="such a spelling beside a model"),
        pytest.param("A100-80GB-MIG-1G.10GB", [], id="a MIG slice"),
        pytest.param("A100,", [], id="an unreadable annotation"),
        pytest.param(",".join(["T4"] * 30_000), [], id="an annotation that is too long to judge"),
    ],
)
def test_the_annotation_becomes_terms(admitting: ShareCluster, annotation: str, models: list[str]) -> None:
    assert terms(admitted(admitting, annotation)) == (wished(*models) if models else [])


def test_all_names_of_the_table_mean_what_they_mean_to_the_extender(admitting: ShareCluster) -> None:
    known = [canonical_model(row.name) for row in MODEL_ROWS]
    for name in dict.fromkeys(each for model in known for each in (model.name, model.family)):
        wish = normalise_model(name)
        models = [model.name for model in known if wish in (model.name, model.family)]
        assert terms(admitted(admitting, name)) == wished(*models)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"affinity": {}}, wished("T4"), id="an empty affinity"),
        pytest.param({"affinity": {"nodeAffinity": {}}}, wished("T4"), id="an empty affinity for nodes"),
        pytest.param(
            requiring({"matchExpressions": [IN_ZONE]}, {"matchFields": [ON_NODE]}),
            [
                {"matchExpressions": [IN_ZONE, of_models("T4")]},
                {"matchExpressions": [of_models("T4")], "matchFields": [ON_NODE]},
                {"matchExpressions": [IN_ZONE, UNLABELLED]},
                {"matchExpressions": [UNLABELLED], "matchFields": [ON_NODE]},
            ],
            id="own terms, each twice",
        ),
        pytest.param(
            requiring({}, {"matchExpressions": [IN_ZONE]}),
            [
                {},
                {"matchExpressions": [IN_ZONE, of_models("T4")]},
                {},
                {"matchExpressions": [IN_ZONE, UNLABELLED]},
            ],
            id="a term that matches no node keeps doing so",
        ),
        pytest.param(requiring({}), [{}], id="only such a term"),
        pytest.param(requiring(*wished("H100-80GB")), wished("H100-80GB"), id="terms about the label"),
        pytest.param({"nodeSelector": {MODEL: "T4"}}, [], id="a selector for the label"),
        pytest.param({"schedulerName": "default-scheduler"}, [], id="another scheduler"),
        pytest.param({"nodeName": NODE}, [], id="a pod with a node"),
    ],
)
def test_terms_of_the_pod_stay(admitting: ShareCluster, spec: Json, expected: list[Json]) -> None:
    assert terms(admitted(admitting, "T4", **spec)) == expected


def test_other_affinity_stays(admitting: ShareCluster) -> None:
    preferred = [{"weight": 1, "preference": {"matchExpressions": [IN_ZONE]}}]
    own = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}, "podAffinity": {}}
    pod = admitted(admitting, "T4", affinity=own)
    assert terms(pod) == wished("T4")
    del pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]
    assert pod["spec"]["affinity"] == own


@pytest.mark.parametrize(
    ("limits", "changed"),
    [
        pytest.param({"cpu": "1"}, False, id="no GPU"),
        pytest.param({"nvidia.com/gpu": "0"}, False, id="the amount 0"),
        pytest.param({"nvidia.com/mig-1g.10gb": "1"}, True, id="a MIG instance"),
    ],
)
def test_pods_that_request_no_gpu_fit_every_node(
    admitting: ShareCluster, limits: Json, changed: bool
) -> None:
    assert bool(terms(admitted(admitting, "T4", limits))) is changed


def test_a_share_whose_scheduler_another_policy_sets(admitting: ShareCluster) -> None:
    pod = admitting.create(admitting.pod(share(), annotations={MODEL: "T4"}))
    assert terms(pod) == wished("T4")


def test_a_pod_made_from_a_stored_one_gets_no_terms_twice(admitting: ShareCluster) -> None:
    made = admitted(admitting, "T4", **requiring({"matchExpressions": [IN_ZONE]}))
    metadata = {"name": "again-of-a-model", "annotations": {MODEL: "T4"}}
    assert admitting.create({"metadata": metadata, "spec": made["spec"]})["spec"] == made["spec"]
