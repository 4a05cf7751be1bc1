"""The placement policies by name. A new policy is a subclass of `Policy` and its place here; the command
line, the benchmark and the tests find it by its `name`."""

from collections.abc import Mapping

from scheduler_ext.sim.placement_policy import Policy
from scheduler_ext.sim.policies import published
from scheduler_ext.sim.policies.default import Default
from scheduler_ext.sim.policies.fgd import Fgd

POLICIES: Mapping[str, type[Policy]] = {
    policy.name: policy
    for policy in (
        *(published.BestFit, Default, published.DotProduct, Fgd, published.FirstFit),
        *(published.GpuClustering, published.GpuPacking, published.LeastAllocated),
        *(published.MostAllocated, published.Random),
    )
}
