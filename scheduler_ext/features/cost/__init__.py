"""The cost of GPUs: what each namespace holds and leaves unused, in units of value or in money."""
