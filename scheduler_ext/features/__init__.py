"""The features that hang on the kernel, each in a room of its own; none of them is needed to place pods."""
