"""Defragmentation: the fewest pods to move so that waiting pods fit, and the execution of such a plan."""
