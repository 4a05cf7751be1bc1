"""XID errors that make a GPU unusable, and the remedy of each, from NVIDIA's XID catalogue.

https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, column "Resolution Bucket (Immediate
Action)". An XID that is not listed here changes nothing by itself: most are caused by applications, and for
the others drivers since R565 report the recovery action that the GPU needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Cure = Literal["Quiet", "GPUReset", "Reboot"]
"""The event that ends an error: some minutes without another, a reset of the GPU, or a reboot of its node."""

XIDS: Mapping[int, tuple[str, Cure]] = {
    46: ("GPU stopped processing", "GPUReset"),
    # The catalogue's WORKFLOW_XID_48: "A GPU reset or node reboot is needed to clear this error."
    48: ("double-bit ECC error", "GPUReset"),
    62: ("internal micro-controller halt", "GPUReset"),
    # IGNORE: the row or page is out of use already, or will be after the next reset, and does no harm until
    # then.
    63: ("row remapping or page retirement", "Quiet"),
    64: ("row remapping or page retirement failed", "GPUReset"),
    # WORKFLOW_NVLINK_ERR: "A GPU reset or node reboot is needed to clear this error."
    74: ("NVLink error", "GPUReset"),
    # RESTART_BM: the driver cannot reach the GPU to reset it.
    79: ("GPU has fallen off the bus", "Reboot"),
    95: ("uncontained memory error", "GPUReset"),
    110: ("security fault", "GPUReset"),
    119: ("GSP does not answer", "GPUReset"),
    120: ("GSP error", "GPUReset"),
    136: ("NVLink training failed", "GPUReset"),
    140: ("unrecovered ECC error", "GPUReset"),
    143: ("GPU initialization error", "GPUReset"),
    # RESTART_VM, for GPUs in confidential computing.
    151: ("key rotation error", "Reboot"),
    158: ("fatal timeout of the GPU", "GPUReset"),
}
NEEDS: Mapping[Cure, str] = {
    "Quiet": "",
    "GPUReset": "; needs a GPU reset",
    "Reboot": "; needs a reboot of the node",
}


def xid_reason(xid: int) -> str:
    """Why a GPU with a listed XID cannot be used, and what it needs."""
    text, cure = XIDS[xid]
    return f"XID {xid}: {text}{NEEDS[cure]}"
