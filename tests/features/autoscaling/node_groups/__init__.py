"""Configuration of autoscalers, for tables of node groups."""
