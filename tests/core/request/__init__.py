"""Amounts and annotations."""
