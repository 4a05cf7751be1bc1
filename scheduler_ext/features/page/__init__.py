"""The live page: the cluster as a map, waiting pods, and decisions."""
