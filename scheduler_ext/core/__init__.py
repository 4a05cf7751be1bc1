"""The decision itself: values in, values out. Nothing here reads a clock, takes a lock, logs or does I/O."""
