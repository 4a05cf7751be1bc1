"""Requests to an API server: transport, kubeconfigs, retries and errors."""
