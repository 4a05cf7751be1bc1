"""Placeholder pods."""
