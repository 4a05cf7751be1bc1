"""The state of one node."""
