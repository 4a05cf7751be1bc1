"""The rules and the dashboard for Prometheus.

This needs `prometheus` and `promtool` (Debian: `apt install prometheus`); without them most tests are
skipped. `alerts/` has promtool's unit tests: each alert fires in one and stays silent in another. A real
Prometheus scrapes the servers of two clusters, one of them with the label `cluster`, and every panel shows
data. The Go program in `grafana_schema/` compares the dashboard with Grafana's types before a release.

A metric with a series per node or GPU is measured at 5,000 nodes with `python -m benchmarks.metrics`.
"""
