"""The extender's metrics for Prometheus, one file for each subject."""
