"""Gangs: pods that start together or not at all, the planner that nominates them and single pods, and the
queue of what waits."""
