"""Rules for `manifests/`, one function per rule: privileges, listeners, secrets and rights. The end-to-end
tests apply them to what kustomize and Helm render."""
