"""The scheduler cache and its ledger."""
