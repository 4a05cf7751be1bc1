"""Which pods leave a node so that a more important one fits."""
