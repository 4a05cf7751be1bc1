"""The bytes of `/debug/snapshot`: the values of one release, as packed JSON with a header."""

import gzip
import zlib
from fractions import Fraction
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from scheduler_ext import __version__
from scheduler_ext.core.errors import SnapshotFileError

API_VERSION = "debug.scheduler-ext.io/v1alpha2"
KIND = "DecisionSnapshot"
_GZIP = b"\x1f\x8b"
# 50,000 nodes of eight GPUs take some 200 MB; a small file that unpacks to more than this is no snapshot.
_MOST_BYTES = 2**30

State = TypeVar("State")


class _FileHeader(Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    version: str | None = None


class _File(Struct, Generic[State], rename="camel"):
    state: State
    api_version: str = API_VERSION
    kind: str = KIND
    version: str = __version__


def encode_snapshot_file(state: object) -> bytes:
    """The file with this state, packed."""
    return gzip.compress(msgspec.json.encode(_File(state), enc_hook=Fraction.__str__), 5, mtime=0)


def decode_snapshot_file(body: bytes, kind: type[State]) -> State:
    """The state in a file, packed or plain. Raises SnapshotFileError naming the problem."""
    text = _unpacked(body) if body.startswith(_GZIP) else body
    try:
        header = msgspec.json.decode(text, type=_FileHeader)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise SnapshotFileError(f"not JSON: {str(error)[:200]}; give a file of /debug/snapshot") from None
    if (header.api_version, header.kind) != (API_VERSION, KIND):
        raise SnapshotFileError(
            f"apiVersion {header.api_version!r}, kind {header.kind!r}; give a file of /debug/snapshot of "
            f"this release, which is {API_VERSION} {KIND}"
        )
    if header.version != __version__:
        raise SnapshotFileError(
            f"version: written by release {str(header.version)[:40]}, and this is {__version__}; replay it "
            "with the same release"
        )
    try:
        return msgspec.json.decode(text, type=_File[kind], dec_hook=_decode_other).state  # type: ignore[valid-type]
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


def _decode_other(kind: type, value: Any) -> Any:
    if kind is Fraction:
        return Fraction(value)
    raise NotImplementedError(kind.__name__)
