"""One decision about one pod: filters, then scores, over a snapshot, and the choice of devices for a bind."""
