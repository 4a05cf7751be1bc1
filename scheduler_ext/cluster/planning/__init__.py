"""Plans for waiting pods, and their execution on the cluster."""
