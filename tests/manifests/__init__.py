"""Rules for manifests/."""
