"""MIG instances that arrive and leave on many identical GPUs, by several placement policies. Apart from the
traces of pods, because here the position on a GPU decides."""
