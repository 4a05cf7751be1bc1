"""The generated messages agree with the kubelet's."""

from __future__ import annotations

import pytest

from scheduler_ext.agent import pod_resources_pb2


# As k8s.io/kubelet/pkg/apis/podresources/v1/api.proto numbers them.
@pytest.mark.parametrize(
    ("message", "numbers"),
    [
        ("ListPodResourcesResponse", {"pod_resources": 1}),
        ("AllocatableResourcesResponse", {"devices": 1}),
        ("PodResources", {"name": 1, "namespace": 2, "containers": 3}),
        ("ContainerResources", {"name": 1, "devices": 2}),
        ("ContainerDevices", {"resource_name": 1, "device_ids": 2}),
    ],
)
def test_numbers_are_kubelets(message: str, numbers: dict[str, int]) -> None:
    made = pod_resources_pb2.DESCRIPTOR.message_types_by_name[message]
    assert {field.name: field.number for field in made.fields} == numbers
