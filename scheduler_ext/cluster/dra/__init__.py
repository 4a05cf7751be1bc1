"""Dynamic Resource Allocation: the API group `resource.k8s.io` of a live cluster."""
