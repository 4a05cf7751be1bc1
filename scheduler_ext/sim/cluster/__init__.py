"""Simulations on the state of a cluster: the waiting pods that would start, in order, and their
victims."""
