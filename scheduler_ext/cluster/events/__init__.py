"""What the extender writes to the cluster besides decisions: Events and nudges."""
