"""Binding a pod: devices are reserved, written down, and bound."""
