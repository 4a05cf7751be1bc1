"""Eviction of idle pods that opted in, after a warning. A loop of its own, with a Lease of its own, because
it ends pods."""
