"""Watches of `resource.k8s.io`, and DeviceTaintRules."""
