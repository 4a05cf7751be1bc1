"""Measurements whose figures the documentation publishes, in `results/`. They start the product as users do;
each runs in seconds with `--smoke`, which CI does."""
