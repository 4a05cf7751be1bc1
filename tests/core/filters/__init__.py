"""Each filter beside the oracle."""
