"""The cost report beside its laws, its metrics and its page."""
