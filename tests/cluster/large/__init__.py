"""A cluster of thousands of nodes, and the work that following it takes."""
