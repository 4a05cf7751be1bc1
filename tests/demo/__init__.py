"""The sample cluster."""
