"""Autoscaling: the nodes that an autoscaler adds for GPU pods, by its configuration, by placeholder pods and
by the startup taint."""
