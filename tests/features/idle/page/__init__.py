"""Idle GPUs on the live page, in a browser."""
