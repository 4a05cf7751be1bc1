"""The queue as users see it."""
