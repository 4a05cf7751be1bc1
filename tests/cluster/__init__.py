"""The live inventory and its control loops, against the API server of `tests/cluster/api`."""
