"""A pod with nothing in it but what a decision reads: no command, no environment, no image, no secret."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from scheduler_ext.core.request.wishes import ANNOTATION_PREFIX
from scheduler_ext.wire import kube

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(kube.Pod)
# Of a volume only counts whether it is bound to nodes.
_CLAIM = Raw(b'{"persistentVolumeClaim":{}}')
_EMPTY = Raw(b"{}")
_KINDS_BOUND_TO_NODES = (b"persistentVolumeClaim", b"ephemeral")


def redacted_pod(pod: kube.Pod) -> bytes:
    """The pod as JSON, with the fields of ``kube.Pod`` alone and only the annotations that are ours.

    Decoding it again gives a pod that asks the same, so it is decided alike. Labels stay away: no decision
    about the pod itself reads them.
    """
    metadata, spec = pod.metadata or kube.ObjectMeta(), pod.spec or kube.PodSpec()
    ours = {
        key: value for key, value in (metadata.annotations or {}).items() if key.startswith(ANNOTATION_PREFIX)
    }
    kept = kube.Pod(
        metadata=msgspec.structs.replace(metadata, labels=None, annotations=ours or None),
        spec=msgspec.structs.replace(spec, volumes=_without_contents(spec.volumes)),
        status=pod.status,
    )
    return _encoder.encode(kept)


def read_redacted(text: bytes) -> kube.Pod:
    """A pod that ``redacted_pod`` wrote. Raises msgspec.MsgspecError for anything else."""
    return _decoder.decode(text)


def _without_contents(volumes: list[Raw] | None) -> list[Raw] | None:
    if not volumes:
        return None
    return [
        _CLAIM if any(kind in bytes(volume) for kind in _KINDS_BOUND_TO_NODES) else _EMPTY
        for volume in volumes
    ]


def spec_of(text: bytes) -> bytes:
    """The spec of a redacted pod: pods that ask alike, as those of a Deployment do, have the same."""
    return _encoder.encode(_decoder.decode(text).spec) if text else b""
