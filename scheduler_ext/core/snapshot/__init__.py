"""An immutable view of all nodes, as columns that are compared at once."""
