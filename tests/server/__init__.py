"""Routes and metrics in the test process."""
