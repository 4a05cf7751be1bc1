"""The cluster behind a running extender: lists and watches of Kubernetes' API, leader election, the inventory
that they make, and the control loops that write. `sources` has the inventory from files."""
