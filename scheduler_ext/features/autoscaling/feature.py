"""Autoscaling, as an entry of the list of features."""

from scheduler_ext.feature import Command, Feature

FEATURE = Feature(
    name="autoscaling",
    settings="scheduler_ext.features.autoscaling.settings",
    serving="scheduler_ext.features.autoscaling.serving",
    commands=(
        Command(
            "autoscaler-config",
            "scheduler_ext.features.autoscaling.node_groups.command",
            "Generate the configuration of an autoscaler from a table of node groups.",
        ),
    ),
)
