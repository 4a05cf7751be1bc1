"""The cluster behind a running extender: lists and watches of Kubernetes' API, and the inventory that they
make."""
