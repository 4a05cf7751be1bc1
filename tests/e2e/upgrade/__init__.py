"""The release before and a steady load, for `test_upgrade.py`."""
