"""Simulations: the same seeds give the same results, and the fast decisions are those of the core."""
