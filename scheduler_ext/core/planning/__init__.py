"""Places for waiting pods, decided before kube-scheduler asks: several pods together, and gangs whole.
`core/cycle` decides about one pod at a time."""
