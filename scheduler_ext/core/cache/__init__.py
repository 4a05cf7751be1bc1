"""The scheduler cache: observed objects, and the ledger of promised devices. It changes with
every event; `snapshot` is its immutable view."""
