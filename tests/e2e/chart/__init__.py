"""The Helm chart: rendered beside kustomize's output, refused values, and an installation."""
