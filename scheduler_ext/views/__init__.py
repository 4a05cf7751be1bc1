"""GPUs, nodes and pods as lists and totals that the page, the metrics and the command line show alike.
`explain` gives reasons; this shows states."""
