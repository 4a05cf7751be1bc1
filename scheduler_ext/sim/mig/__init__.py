"""MIG instances that are created and destroyed on many identical GPUs, by several placement policies."""
