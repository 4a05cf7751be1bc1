"""One decision: filters, then scores, over a snapshot."""
