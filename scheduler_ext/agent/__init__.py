"""The node agent: reads one node's GPUs from NVML and the kubelet, and writes them as its GPUNode. It shares
only the wire formats with the extender, which reads that object."""

import os

# gRPC writes a line to standard error for every closed connection, and reads this variable once, on import.
# The agent logs the errors that matter itself.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
