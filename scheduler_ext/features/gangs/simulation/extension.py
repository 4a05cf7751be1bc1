"""Gangs in simulations, as the simulator asks for them."""

from scheduler_ext.features.gangs.simulation.options import gang_options
from scheduler_ext.features.gangs.simulation.placed_together import GangsOfCluster
from scheduler_ext.sim.extension import Extension

EXTENSION = Extension(
    trace_options=gang_options,
    trace_help=" With --gangs, jobs of one or more pods wait until they fit.",
    cluster_help=", the pods of a gang together or not at all",
    gangs=GangsOfCluster,
)
