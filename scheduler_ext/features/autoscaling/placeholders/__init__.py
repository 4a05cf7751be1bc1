"""Placeholder pods: they make an autoscaler add a node that only the extender knows to be needed."""
