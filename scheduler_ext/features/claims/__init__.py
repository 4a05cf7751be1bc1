"""ResourceClaims beyond what counts: the expressions that select devices, and taints on unhealthy ones."""
