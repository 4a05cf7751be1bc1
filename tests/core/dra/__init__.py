"""Devices and claims."""
