"""Planning on a live cluster: the waiting pods, the room of nodes, and the writes of nominations, gates and
evictions."""
