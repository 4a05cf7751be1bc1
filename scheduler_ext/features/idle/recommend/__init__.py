"""Right-sizing: the smaller GPU that would do for a workload, from what its pods used."""
