"""Estimates of when waiting pods will start, by a replay of the planner on past run times."""
