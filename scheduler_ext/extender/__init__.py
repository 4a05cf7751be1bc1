"""filter, prioritize and preempt from bytes to bytes, and the state that answers them; no HTTP here."""
