"""Startup taints, placeholders, and the tables of node groups."""
