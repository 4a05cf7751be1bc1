"""Where the inventory comes from: files, a dump of a cluster, or a live one."""
