"""Idle GPUs: pods whose GPUs compute nothing, their eviction where it is allowed, and smaller GPUs for pods
that use little."""
