"""Where the inventory comes from: a file, a dump of a cluster, or a live one, behind one interface."""
