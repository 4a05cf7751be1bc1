"""Whether the GPUs of a new node are known and handed out, so that its startup taint may go."""

from collections.abc import Iterable, Iterator

from scheduler_ext.core.gpu.gpu import Report
from scheduler_ext.core.gpu.mig_profile import MIG_PREFIX, resource_from_profile
from scheduler_ext.core.node.node import NodeInfo
from scheduler_ext.core.request.resource_names import ResourceNames, vendor_of


def missing_at_start(info: NodeInfo, resources: ResourceNames) -> str | None:
    """What the node still lacks, as a clause; None if it has started."""
    report = info.report
    if report is None or report.from_slices:
        # For GPUs of other vendors there is no agent: labels are all that is ever known of them.
        if info.estimate is None or info.estimate.vendor == "nvidia":
            return "no agent has reported its GPUs"
        offers: Iterable[tuple[str, ...]] = [_whole(info.estimate.vendor, resources)]
    elif info.freshness != "Fresh":
        return "no agent has reported its GPUs"
    elif not report.devices:
        return "its agent reports no GPU"
    else:
        offers = _offers(report, resources)
    if info.changing:
        return "its labels say that its MIG layout or its driver is being changed"
    if info.dra is not None and info.dra.devices:
        return None
    allocatable = info.allocatable or {}
    if info.share_node:
        return None if allocatable.get(resources.share) else f"it does not hand out {resources.share} yet"
    lacking = [names[0] for names in offers if names and not any(map(allocatable.get, names))]
    return f"its device plugin does not hand out {', '.join(lacking)} yet" if lacking else None


def _offers(report: Report, resources: ResourceNames) -> Iterator[tuple[str, ...]]:
    """The resources that the device plugin will hand out, each by its possible names."""
    mixed = report.mig_strategy == "mixed"
    for vendor in sorted({each.vendor for each in report.devices if not (mixed and each.mig.enabled)}):
        yield _whole(vendor, resources)
    if mixed:
        for profile in sorted(
            {instance.offered_as for each in report.devices for instance in each.mig.instances}
        ):
            name = resource_from_profile(profile)
            assert name.startswith(MIG_PREFIX)
            yield name, f"{name}.shared"


def _whole(vendor: str, resources: ResourceNames) -> tuple[str, ...]:
    """The names of the vendor's whole GPUs; none where the configuration has none."""
    return tuple(name for name in resources.whole if vendor_of(name) == vendor)
