"""Places for waiting pods, decided before kube-scheduler asks; values only, as in `core`."""
