"""The cluster behind a running extender: Kubernetes' API as lists and watches, and what is made of them."""
