"""Explanations: which reason and which fact, beside the verdicts of the core."""
