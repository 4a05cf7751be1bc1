"""Why a pod fits, does not fit, or waits: the verdicts of `core` and of kube-scheduler's own filters, in
sentences. No code that answers kube-scheduler imports it."""
