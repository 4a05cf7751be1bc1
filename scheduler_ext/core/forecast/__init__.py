"""Estimated future demand, and what a placement takes away from it."""
