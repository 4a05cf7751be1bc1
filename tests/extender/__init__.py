"""filter, prioritize and preempt on bytes, without HTTP."""
