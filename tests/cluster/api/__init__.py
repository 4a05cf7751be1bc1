"""A Kubernetes API in the test process, with failures on demand."""
