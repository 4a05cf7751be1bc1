"""The planner and the queue on a control plane."""
