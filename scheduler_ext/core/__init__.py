"""The decision itself: values in, values out. No module here reads a clock, takes a lock, logs or does
I/O."""
