"""Simulated clusters and pods, and the decisions on them: no network, no clock except for measurements, and
every random number from a seed."""
