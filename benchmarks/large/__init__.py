"""A cluster of thousands of nodes, and what following it costs."""
