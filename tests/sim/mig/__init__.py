"""Simulated MIG instances."""
