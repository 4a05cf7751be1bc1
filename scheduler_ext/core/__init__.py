"""The decision itself: values in, values out. Nothing here reads a clock, takes a lock, writes a log or does
I/O."""
