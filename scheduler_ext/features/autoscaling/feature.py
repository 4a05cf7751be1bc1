"""Autoscaling, as an entry of the list of features."""

from scheduler_ext.feature import Command, Feature

FEATURE = Feature(
    name="autoscaling",
    settings="scheduler_ext.features.autoscaling.settings",
    serving="scheduler_ext.features.autoscaling.serving",
    pages=dict.fromkeys(
        (
            "karpenter.sh",
            "eks.amazonaws.com",
            "cloud.google.com/ComputeClass",
            "autoscaling.x-k8s.io",
            "autoscaling.openshift.io",
            "machine.openshift.io",
            "cluster.x-k8s.io",
            "cli.scheduler-ext.io/NodeGroups",
            "/ConfigMap/cluster-autoscaler-priority-expander",
        ),
        "docs/features/autoscaling/autoscalers.md",
    ),
    commands=(
        Command(
            "autoscaler-config",
            "scheduler_ext.features.autoscaling.node_groups.command",
            "Generate the configuration of an autoscaler from a table of node groups.",
        ),
    ),
)
