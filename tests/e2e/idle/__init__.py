"""Idle GPUs and reclaim by the commands of the page."""
