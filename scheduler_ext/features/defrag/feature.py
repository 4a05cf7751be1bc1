"""Defragmentation, as an entry of the list of features."""

from scheduler_ext.feature import Command, Feature

FEATURE = Feature(
    name="defrag",
    pages={"policy/PodDisruptionBudget": "docs/features/defrag/defragment.md"},
    commands=(
        Command(
            "defrag",
            "scheduler_ext.features.defrag.command",
            "Plan the fewest moves of running pods that let waiting pods in.",
            plugin=True,
        ),
    ),
)
