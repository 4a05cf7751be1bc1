"""Inventories from files and dumps."""
