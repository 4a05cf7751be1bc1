"""Cost, as an entry of the list of features."""

from scheduler_ext.feature import Command, Feature

FEATURE = Feature(
    name="cost",
    serving="scheduler_ext.features.cost.serving",
    commands=(
        Command(
            "cost",
            "scheduler_ext.features.cost.command",
            "Show what GPUs cost per hour, by model and by namespace.",
            plugin=True,
        ),
    ),
)
