"""The output of `autoscaler-config` against the definitions of autoscalers, and placeholders."""
