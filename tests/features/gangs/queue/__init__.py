"""The queue: estimates of starts, the list, its command, route and metrics."""
