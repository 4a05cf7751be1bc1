"""Simulated clusters and pods, and decisions on them: no network, and every random number from a seed."""
