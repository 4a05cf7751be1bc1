"""An immutable view of all nodes, with equal nodes in one state and the states in columns that are compared
at once."""
