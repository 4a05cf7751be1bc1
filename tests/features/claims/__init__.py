"""Selectors of devices against recorded answers of Kubernetes, and taints of devices."""
