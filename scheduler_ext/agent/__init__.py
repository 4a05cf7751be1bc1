"""The node agent: what NVML and kubelet tell of one node's GPUs, written as its GPUNode."""
