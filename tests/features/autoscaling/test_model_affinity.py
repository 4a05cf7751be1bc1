"""The policy of the component `model-affinity` agrees with the table of models and with the configuration."""

from __future__ import annotations

import pytest

from tests.manifests.policy import violations
from tests.manifests.shipped import shipped
from tests.manifests.test_policy import Change, changing, in_ours

POLICY = "MutatingAdmissionPolicy gpu-scheduler-model-affinity"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(
            changing(POLICY, "spec", "variables", "models", expression="['A100-80GB', 'A100-81GB']"),
            "models differ from the table in A10, A100-40GB, A100-81GB, A10G",
            id="a model that the table lacks",
        ),
        pytest.param(
            in_ours(resources={"wholeGpu": ["example.com/gpu"]}),
            "are not the configured ones, example.com/gpu, gpu.scheduler-ext.io/memory-mib",
            id="another resource of GPUs",
        ),
    ],
)
def test_a_rule_finds(change: Change, said: str) -> None:
    found = shipped("model-affinity")
    change(found)
    assert [broken for broken in violations(found) if said in broken]
