"""Gangs with gates, nominations and evictions on a control plane."""
