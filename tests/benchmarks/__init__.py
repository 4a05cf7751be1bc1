"""Arithmetic of benchmarks that decides published figures. That a benchmark runs is shown by its `--smoke` in
CI."""
