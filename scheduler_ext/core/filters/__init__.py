"""The filters in their order: whether the node is known at all, then what its GPUs are, and last how many are
free, so that a reason names the obstacle that lasts longest."""

from collections.abc import Mapping

from scheduler_ext.core.filters.change_in_progress import ChangeInProgress
from scheduler_ext.core.filters.counts import GpuCount, MigPlacement
from scheduler_ext.core.filters.double_allocation import DoubleAllocation
from scheduler_ext.core.filters.fresh import FreshInventory
from scheduler_ext.core.filters.health import Health
from scheduler_ext.core.filters.memory import FreeMemory, KnownMemory, TotalMemory
from scheduler_ext.core.filters.model import Model
from scheduler_ext.core.filters.sharing import Replicas, Sharing
from scheduler_ext.core.filters.versions import ComputeCapability, Cuda
from scheduler_ext.core.framework.criterion import Filter
from scheduler_ext.core.framework.refusal import INVALID_REQUEST, KEPT_FOR_GANG, OTHER_PLACE, Reason
from scheduler_ext.core.request.request import GpuRequest, InvalidRequest

# The first filter that refuses a node names the reason.
FILTERS: tuple[Filter, ...] = (
    FreshInventory(),
    ChangeInProgress(),
    Model(),
    ComputeCapability(),
    Cuda(),
    KnownMemory(),
    TotalMemory(),
    Sharing(),
    Replicas(),
    Health(),
    GpuCount(),
    MigPlacement(),
    DoubleAllocation(),
    FreeMemory(),
)

# A verdict is an index into this tuple plus one. The last two are no filter's: they are about gangs.
REASONS: tuple[Reason, ...] = (
    INVALID_REQUEST,
    *dict.fromkeys(each.reason for each in FILTERS),
    OTHER_PLACE,
    KEPT_FOR_GANG,
)

BY_NAME: Mapping[str, Filter] = {each.name: each for each in FILTERS}
# By verdict; an invalid request has none.
FILTER_OF: Mapping[int, Filter] = {
    code: next(each for each in FILTERS if each.reason is reason)
    for code, reason in enumerate(REASONS, start=1)
    if reason not in (INVALID_REQUEST, OTHER_PLACE, KEPT_FOR_GANG)
}


def reason_text(verdict: int, request: GpuRequest | InvalidRequest) -> str:
    """The reason of a verdict in the words for this request."""
    if isinstance(request, InvalidRequest) or verdict not in FILTER_OF:
        return REASONS[verdict - 1].text
    return FILTER_OF[verdict].reason_text(request)
