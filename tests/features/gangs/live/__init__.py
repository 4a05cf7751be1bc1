"""Nominations, gates and evictions for waiting pods and gangs."""
