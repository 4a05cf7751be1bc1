"""Plans beside an exhaustive search, and their execution."""
