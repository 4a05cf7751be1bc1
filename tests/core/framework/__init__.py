"""Exact allocation."""
