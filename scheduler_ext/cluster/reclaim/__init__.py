"""Eviction of idle pods that opted in, after a warning."""
