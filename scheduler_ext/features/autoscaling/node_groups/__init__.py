"""The configuration of autoscalers, generated from a table of node groups."""
