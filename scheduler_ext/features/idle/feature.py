"""Idle GPUs, as an entry of the list of features."""

from scheduler_ext.feature import Command, Feature

FEATURE = Feature(
    name="idle",
    settings="scheduler_ext.features.idle.settings",
    serving="scheduler_ext.features.idle.serving",
    pages={"autoscaling.k8s.io": "docs/features/idle/right-sizing.md"},
    commands=(
        Command(
            "idle",
            "scheduler_ext.features.idle.command",
            "List the pods whose GPUs have computed nothing for a while.",
            plugin=True,
        ),
        Command(
            "recommend",
            "scheduler_ext.features.idle.recommend.command",
            "Recommend GPU memory, MIG profiles or smaller models from observed peaks.",
            plugin=True,
        ),
    ),
)
