"""NVML without a GPU: a C library of our own under the real pynvml, and the node it tells of."""
