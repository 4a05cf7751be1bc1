"""Why a pod fits, does not fit, or waits."""
