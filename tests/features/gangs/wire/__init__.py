"""What the planner writes to pods."""
