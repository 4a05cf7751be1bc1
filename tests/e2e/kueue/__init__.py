"""The samples for Kueue against its definitions."""
