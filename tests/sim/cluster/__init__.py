"""Simulations of a cluster: each pod where it goes, and its victims."""
