"""GPU-aware scheduler extender for kube-scheduler. CONTRIBUTING.md has the layers of the folders."""

__version__ = "0.1.0"
