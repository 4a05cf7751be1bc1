"""The node agent: what NVML and kubelet tell of one node's GPUs, written as its GPUNode."""

import os

# gRPC writes a line of its own to standard error for every closed connection, and asks this once, on import.
# What matters of it reaches the agent as an error, and its log as one of its own lines.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
