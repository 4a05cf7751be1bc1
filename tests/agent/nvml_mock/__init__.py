"""NVML without a GPU: the tests' C library under the real pynvml, and the node that it describes."""
