"""Victims, beside an exhaustive search."""
