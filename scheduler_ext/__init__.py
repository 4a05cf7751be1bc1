"""GPU-aware scheduler extender for kube-scheduler."""

__version__ = "0.1.0"
