"""The scheduler cache: observed objects, and the ledger of promised devices. It changes with
every event. `Extender` publishes snapshots of its nodes (`Cache.info`), which never change."""
