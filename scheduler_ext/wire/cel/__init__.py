"""Expressions of the Common Expression Language (CEL) that select devices, as Kubernetes evaluates them."""
