"""What manifests/ may and may not say."""
