"""What the planner writes to pods, as bodies of requests."""
