"""Gangs in simulations: jobs of several pods that wait, start, run and leave. `core/planning` decides; the
clock and the jobs are here."""
