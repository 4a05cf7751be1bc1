"""Dynamic Resource Allocation on a live cluster: which version of `resource.k8s.io` it serves, the watches of
it, and the DeviceTaintRules that the extender writes. `wire/dra` decodes these objects."""
