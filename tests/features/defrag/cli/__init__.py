"""The command `defrag`."""
