"""Planning ahead on a live cluster: what is waiting, what nodes have left, and the writing of nominations."""
