"""Gangs in simulations: jobs of several pods that wait, start, run and leave."""
