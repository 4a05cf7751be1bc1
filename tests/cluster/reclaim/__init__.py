"""Eviction of idle pods."""
