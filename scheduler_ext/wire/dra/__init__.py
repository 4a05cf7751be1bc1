"""Objects of `resource.k8s.io` as values of `core/dra`, in each served version."""
