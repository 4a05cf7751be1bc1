"""The generated Python agrees with the .proto beside it and with the kubelet's messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor

from scheduler_ext.agent import pod_resources_pb2

PROTO = Path(pod_resources_pb2.__file__).with_name("pod_resources.proto").read_text()
MESSAGE = re.compile(r"^message (\w+) \{([^}]*)\}", re.MULTILINE)
FIELD = re.compile(r"^ *(repeated )?(\w+) (\w+) = (\d+);$", re.MULTILINE)

# (repeated, type, name, number)
Field = tuple[bool, str, str, int]


def field_of(field: FieldDescriptor) -> Field:
    kind = (
        field.message_type.name if field.message_type else {FieldDescriptor.TYPE_STRING: "string"}[field.type]
    )
    return field.is_repeated, kind, field.name, field.number


def test_messages_and_fields_are_the_same() -> None:
    written: dict[str, list[Field]] = {
        name: [(bool(many), kind, field, int(number)) for many, kind, field, number in FIELD.findall(body)]
        for name, body in MESSAGE.findall(PROTO)
    }
    made = {
        name: [field_of(field) for field in message.fields]
        for name, message in pod_resources_pb2.DESCRIPTOR.message_types_by_name.items()
    }
    assert made == written
    assert sum(map(len, made.values())) == 9


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


def test_other_fields_of_the_kubelet_are_skipped() -> None:
    """A container with CPUs, memory and a claim, its device with a NUMA node, field by field."""
    device = b"\x0a\x0envidia.com/gpu" + b"\x12\x05GPU-a" + b"\x1a\x04\x0a\x02\x08\x01"
    container = (
        b"\x0a\x04main" + b"\x12" + bytes([len(device)]) + device + b"\x1a\x02\x04\x05" + b"\x2a\x03\x0a\x01c"
    )
    pod = b"\x0a\x01p" + b"\x12\x02ml" + b"\x1a" + bytes([len(container)]) + container + b"\x20\x04"
    read = pod_resources_pb2.PodResources.FromString(pod)
    assert (read.name, read.namespace, read.containers[0].name) == ("p", "ml", "main")
    assert list(read.containers[0].devices[0].device_ids) == ["GPU-a"]
