"""Estimates of starts."""
