"""Dry runs: how many more pods fit, and what changes in a cluster that is not there."""
