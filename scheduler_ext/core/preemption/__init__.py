"""The pods to evict from a node so that a more important one fits, chosen among kube-scheduler's
proposals."""
