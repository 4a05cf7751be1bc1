"""Places for waiting pods, decided before kube-scheduler asks: several pods together, and gangs whole."""
