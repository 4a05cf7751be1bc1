"""Connections, kubeconfigs and retries."""
