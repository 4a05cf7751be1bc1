"""Feature gates of a control plane, and the API versions that they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from tests.e2e.cluster.binaries import chosen_minor, release_number


@dataclass(frozen=True, slots=True)
class Features:
    """`gates` are feature gates of kube-apiserver, kube-controller-manager and every kube-scheduler; `apis`
    are versions of API groups that the API server serves in addition, such as "resource.k8s.io/v1beta2".
    """

    gates: Mapping[str, bool] = field(default_factory=dict)
    apis: Sequence[str] = ()

    def flags(self) -> list[str]:
        """The arguments for any of the components."""
        gates = ",".join(f"{name}={str(on).lower()}" for name, on in self.gates.items())
        return [f"--feature-gates={gates}"] if gates else []

    def apiserver_flags(self) -> list[str]:
        """The arguments for kube-apiserver."""
        apis = ",".join(f"{api}=true" for api in self.apis)
        return [*self.flags(), *([f"--runtime-config={apis}"] if apis else [])]


SINCE_1_36 = pytest.mark.skipif(
    release_number(chosen_minor()) < (1, 36),
    reason="MutatingAdmissionPolicy (shares, gangs) and taints of devices need Kubernetes 1.36",
)

STOCK = Features()
"""The defaults of the release."""

DEVICE_TAINT_RULES = Features({"DRADeviceTaintRules": True}, ("resource.k8s.io/v1beta2",))
"""DeviceTaintRule of resource.k8s.io/v1beta2. It is off by default in 1.36; in 1.37 it is on, also as v1."""

WORKLOADS = Features({"GenericWorkload": True}, ("scheduling.k8s.io/v1beta1",))
"""PodGroup of scheduling.k8s.io/v1beta1, scheduling of whole groups, and their preemption. From 1.37."""
