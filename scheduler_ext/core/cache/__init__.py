"""The scheduler cache: observed objects, and the ledger of promised devices."""
