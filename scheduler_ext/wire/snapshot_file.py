"""The file that ``/debug/snapshot`` writes and ``scheduler-ext replay`` reads: what decisions follow from.

It belongs to the release that wrote it: its fields are those of this package's own types.
"""

from __future__ import annotations

import gzip
import zlib
from fractions import Fraction
from typing import Any

import msgspec
from msgspec import Struct, field

from scheduler_ext import __version__
from scheduler_ext.core.errors import SnapshotFileError
from scheduler_ext.core.framework.decided import Bound, Candidate
from scheduler_ext.core.gpu.mig_geometry import Geometry
from scheduler_ext.core.intree import NodeFacts
from scheduler_ext.core.node.node import NodeInfo, PendingPod
from scheduler_ext.core.request.pod_kinds import TaskClass
from scheduler_ext.wire.config import Configuration

API_VERSION = "debug.scheduler-ext.io/v1alpha1"
KIND = "DecisionSnapshot"
_GZIP = b"\x1f\x8b"
# 50,000 nodes of eight GPUs are some 200 MB; a small file that unpacks to more is no snapshot.
_MOST_BYTES = 2**30


class StoredDecision(Struct):
    """One pod's record; ``pod`` is its manifest as redacted JSON, empty where it is not known.

    ``offer`` is the place in ``offers`` of the nodes that kube-scheduler asked about, None where it did not;
    ``gone``: it was known neither to wait for GPUs nor to hold any.
    """

    uid: str
    namespace: str
    name: str
    pod: str
    first_at: float
    at: float
    filters: int
    generation: int
    nodes_in: int
    nodes_out: int
    rejected: dict[str, int]
    problem: str | None
    offer: int | None
    candidates: tuple[Candidate, ...]
    bound: Bound | None
    gone: bool


class StoredOffer(Struct):
    """Which of the nodes were there when kube-scheduler asked, and about which it asked: one bit each, in the
    order of ``nodes``."""

    known: bytes
    asked: bytes


class SnapshotFile(Struct, rename="camel"):
    """``workload`` are the classes of pods expected and how often each comes, ``unknown`` the part of which
    nothing is known; ``tuned`` are the mixes that tables of MIG geometries were tuned to."""

    generation: int
    at: float
    configuration: Configuration
    nodes: list[NodeInfo]
    workload: list[tuple[TaskClass, float]]
    unknown: float
    tuned: list[tuple[Geometry, tuple[float, ...]]]
    pending: list[PendingPod]
    facts: list[NodeFacts]
    offers: list[StoredOffer]
    decisions: list[StoredDecision]
    api_version: str = API_VERSION
    kind: str = KIND
    version: str = field(default=__version__)


class _Header(Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    version: str | None = None


def encode_snapshot_file(snapshot: SnapshotFile) -> bytes:
    """The file, packed."""
    return gzip.compress(_encoder.encode(snapshot), 5, mtime=0)


def decode_snapshot_file(body: bytes) -> SnapshotFile:
    """A file, packed or plain. Raises SnapshotFileError naming what is wrong with it."""
    text = _unpacked(body) if body.startswith(_GZIP) else body
    try:
        header = msgspec.json.decode(text, type=_Header)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise SnapshotFileError(f"not JSON: {str(error)[:200]}; give a file of /debug/snapshot") from None
    if (header.api_version, header.kind) != (API_VERSION, KIND):
        raise SnapshotFileError(
            f"apiVersion {header.api_version!r}, kind {header.kind!r}; give a file of /debug/snapshot, which "
            f"is {API_VERSION} {KIND}"
        )
    if header.version != __version__:
        raise SnapshotFileError(
            f"version: written by release {str(header.version)[:40]}, and this is {__version__}; replay it "
            "with the same release"
        )
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError, ValueError, ZeroDivisionError) as error:
        raise SnapshotFileError(f"cannot be read: {str(error)[:300]}") from None


def _unpacked(body: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(body, _MOST_BYTES)
    except zlib.error as error:
        raise SnapshotFileError(f"cannot be unpacked: {error}") from None
    if unpacker.unconsumed_tail:
        raise SnapshotFileError(f"unpacks to more than {_MOST_BYTES} bytes; no snapshot is so large")
    if not unpacker.eof:
        raise SnapshotFileError("ends too early; fetch it again")
    return text


def _encode_other(value: object) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    raise NotImplementedError(type(value).__name__)


def _decode_other(kind: type, value: Any) -> Any:
    if kind is Fraction:
        return Fraction(value)
    raise NotImplementedError(kind.__name__)


_encoder = msgspec.json.Encoder(enc_hook=_encode_other)
_decoder = msgspec.json.Decoder(SnapshotFile, dec_hook=_decode_other)
