"""Columns and their updates."""
