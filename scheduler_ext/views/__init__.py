"""GPUs, nodes and pods as the page, the metrics and the command line show them."""
