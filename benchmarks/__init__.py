"""Measurements whose figures the documentation publishes, in `results/`. They start the product as users do;
most run in seconds with `--smoke`. `make help` lists those with a target, `python -m` runs all."""
