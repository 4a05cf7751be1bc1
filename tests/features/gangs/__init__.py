"""Gangs from the planner to the page."""
