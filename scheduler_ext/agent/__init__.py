"""The node agent: reads one node's GPUs from NVML and the kubelet, and writes them as its GPUNode.

    NvmlSource ──► Observer (kubelet's pods, activity, health) ──► node_status ──► Reporter ──► API server

With the extender, which reads that object, it shares the wire format, the names of models and of labels, and
the client of the API server; it loads no decisions."""

import os

# gRPC writes a line to standard error for every closed connection, and reads this variable once, on import.
# The agent logs the errors that matter itself.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
