"""Gangs and the queue, as an entry of the list of features."""

from scheduler_ext.feature import Command, Feature

FEATURE = Feature(
    name="gangs",
    settings="scheduler_ext.features.gangs.settings",
    serving="scheduler_ext.features.gangs.serving",
    commands=(
        Command(
            "queue",
            "scheduler_ext.features.gangs.queue.command",
            "List the pods that wait for GPUs, in the order in which they are tried.",
            plugin=True,
        ),
    ),
    simulation="scheduler_ext.features.gangs.simulation.extension",
    pages=dict.fromkeys(
        (
            "scheduling.k8s.io/PodGroup",
            "scheduling.k8s.io/Workload",
            "scheduling.x-k8s.io/PodGroup",
            "scheduling.run.ai",
            "scheduling.volcano.sh",
        ),
        "docs/features/gangs/gangs.md",
    ),
)
