"""Simulated gangs."""
