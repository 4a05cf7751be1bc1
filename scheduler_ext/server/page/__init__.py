"""The live page: the cluster as a map, who waits, what was decided."""
