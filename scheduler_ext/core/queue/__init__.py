"""The queue of waiting pods, and when each of them will start."""
