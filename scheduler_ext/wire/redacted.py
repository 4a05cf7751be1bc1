"""A pod reduced to the fields that a decision reads: no command, no environment, no image, no secret."""

import msgspec
from msgspec import Raw

from scheduler_ext.core.request.constraints import ANNOTATION_PREFIX
from scheduler_ext.wire import kube

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(kube.Pod)
# Of a volume, only whether it is bound to nodes matters.
_CLAIM = Raw(b'{"persistentVolumeClaim":{}}')
_EMPTY = Raw(b"{}")
_KINDS_BOUND_TO_NODES = (b"persistentVolumeClaim", b"ephemeral")


def holds_volumes(spec: kube.PodSpec) -> bool:
    """Whether a volume of a pod may be bound to nodes."""
    return any(kind in bytes(volume) for volume in spec.volumes or () for kind in _KINDS_BOUND_TO_NODES)


def spec_key(spec: kube.PodSpec) -> bytes:
    """Equal for specs of which kube-scheduler's filters decide alike, such as those of a Deployment, although
    their volumes have names of their own."""
    return _encoder.encode((msgspec.structs.replace(spec, volumes=None), holds_volumes(spec)))


def redacted_pod(pod: kube.Pod) -> bytes:
    """The pod as JSON, with the fields of `kube.Pod` alone and only this project's annotations. Decoding it
    again gives a pod with the same request and the same decision. Labels and owners are left out: no decision
    about the pod itself reads them. Messages of containers are left out, too: they may quote a log."""
    metadata, spec = pod.metadata or kube.ObjectMeta(), pod.spec or kube.PodSpec()
    ours = {
        key: value for key, value in (metadata.annotations or {}).items() if key.startswith(ANNOTATION_PREFIX)
    }
    volumes = [
        _CLAIM if any(kind in bytes(volume) for kind in _KINDS_BOUND_TO_NODES) else _EMPTY
        for volume in spec.volumes or ()
    ]
    status = pod.status
    if status is not None:
        status = msgspec.structs.replace(status, container_statuses=None, init_container_statuses=None)
    kept = kube.Pod(
        metadata=msgspec.structs.replace(
            metadata, labels=None, annotations=ours or None, owner_references=None
        ),
        spec=msgspec.structs.replace(spec, volumes=volumes or None),
        status=status,
    )
    return _encoder.encode(kept)


def read_redacted(text: bytes) -> kube.Pod:
    """A pod that `redacted_pod` wrote. Raises msgspec.MsgspecError for anything else."""
    return _decoder.decode(text)


def likeness(text: bytes) -> bytes:
    """The part of a redacted pod that decisions read, without names: equal for the pods of a Deployment."""
    if not text:
        return b""
    pod = _decoder.decode(text)
    metadata, status = pod.metadata or kube.ObjectMeta(), pod.status or kube.PodStatus()
    return _encoder.encode(
        kube.Pod(
            metadata=kube.ObjectMeta(annotations=metadata.annotations),
            spec=pod.spec,
            status=kube.PodStatus(
                extended_resource_claim_status=status.extended_resource_claim_status,
                resource_claim_statuses=status.resource_claim_statuses,
            ),
        )
    )
