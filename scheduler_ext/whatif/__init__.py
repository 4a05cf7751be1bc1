"""Dry runs: how many more pods fit, and where new pods would go, without a change to the cluster."""
