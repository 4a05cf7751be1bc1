"""Clusters and pods that are not there, and the decisions that would be made on them: no network, no clock
but to measure, every random number from a seed."""
