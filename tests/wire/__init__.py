"""Bytes to values and back, and what is refused."""
