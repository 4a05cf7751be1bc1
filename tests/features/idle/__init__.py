"""Idle pods and GPUs: lists, metrics and settings."""
