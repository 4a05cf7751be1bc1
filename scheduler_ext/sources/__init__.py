"""Where the inventory comes from: a file or a dump of a cluster; `cluster` follows a live one behind the same
interface."""
