"""Each score beside the oracle."""
