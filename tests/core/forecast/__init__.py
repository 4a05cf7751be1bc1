"""Demand and its cost."""
