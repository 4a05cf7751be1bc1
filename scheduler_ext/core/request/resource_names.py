"""Which extended resources mean GPUs, and of what kind."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX
from scheduler_ext.core.intree.resource_fit import DEVICE_CLASS_PREFIX as DEVICE_CLASS_PREFIX

DEFAULT_WHOLE = (
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
)
DEFAULT_DEVICE_CLASSES = (
    "gpu.nvidia.com",
    "mig.nvidia.com",
    "gpu.amd.com",
    "gpu.intel.com",
    "gaudi.intel.com",
)
_SHARED = ".shared"
_OWN_DOMAIN = "gpu.scheduler-ext.io/"
DEFAULT_SHARE = f"{_OWN_DOMAIN}memory-mib"
_VENDOR_OF_DOMAIN = {
    "nvidia.com": "nvidia",
    "amd.com": "amd",
    "gpu.intel.com": "intel",
    "habana.ai": "habana",
}

# Devices of these vendors that are no GPUs: network devices, and Intel's counters.
_NO_GPU = re.compile(r"nic|hostdev|rdma|roce|sriov|vf|imex|dpu|monitoring")


def vendor_of(resource: str) -> str | None:
    """Whose GPUs a resource name counts, by its domain; None when the domain is no vendor's."""
    return _VENDOR_OF_DOMAIN.get(resource.partition("/")[0])


def without_shared(resource: str) -> str:
    """A resource by the name that it has where GPUs are not shared."""
    return resource.removesuffix(_SHARED)


def only_shared(amounts: Mapping[str, int]) -> bool:
    """Whether all that NVIDIA's device plugin offers has names of shared GPUs (`renameByDefault`;
    k8s-device-plugin, README, "Shared Access to GPUs")."""
    offered = [name for name, count in amounts.items() if count > 0 and vendor_of(name) == "nvidia"]
    return bool(offered) and all(name.endswith(_SHARED) for name in offered)


def shown_resource(resource: str) -> str:
    """A resource for people: a class of devices by its name."""
    if not resource.startswith(DEVICE_CLASS_PREFIX):
        return resource
    name, _, own = resource.removeprefix(DEVICE_CLASS_PREFIX).partition("?")
    return f"{name} with requirements" if own else name


@dataclass(frozen=True, slots=True)
class ResourceNames:
    """The configured names: whole GPUs (several), memory shares (one), DeviceClasses of GPUs; MIG names are
    NVIDIA's own."""

    whole: tuple[str, ...] = DEFAULT_WHOLE
    share: str = DEFAULT_SHARE
    device_classes: tuple[str, ...] = DEFAULT_DEVICE_CLASSES

    def is_gpu(self, resource: str) -> bool:
        return (
            resource in self.whole
            or resource == self.share
            or resource.startswith(MIG_PREFIX)
            or (
                resource.startswith(DEVICE_CLASS_PREFIX)
                and resource.removeprefix(DEVICE_CLASS_PREFIX) in self.device_classes
            )
        )

    def looks_like_gpu(self, resource: str) -> bool:
        """Whether a name that is not configured may mean GPUs: it is renamed (k8s-device-plugin, README,
        `resources.gpus`), misspelt, or of another device plugin."""
        domain, _, short = resource.lower().rpartition("/")
        if self.is_gpu(resource) or f"{domain}/" in (DEVICE_CLASS_PREFIX, _OWN_DOMAIN):
            return False
        if domain in _VENDOR_OF_DOMAIN:
            return _NO_GPU.search(short) is None
        return "gpu" in short or self.meant_by(resource) is not None

    def meant_by(self, resource: str) -> str | None:
        """The configured resource of whole GPUs that a misspelt name is nearest to; None if none is near."""
        return next(iter(get_close_matches(resource.lower(), self.whole, n=1, cutoff=0.85)), None)
