"""Dry runs, beside the core's decisions one after the other."""
