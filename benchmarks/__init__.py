"""Measurements whose figures the documentation publishes, in `results/`. They start the product as users do;
most run in seconds with `--smoke`. `make help` lists them, except for `benchmarks.metrics` (a scrape of 5,000
nodes) and `benchmarks.defrag` (plans beside an exhaustive search), which `python -m` runs."""
