"""Recommendations, and the counter of pods that ran out of GPU memory."""
