"""NVML without a GPU: a C library that the real pynvml loads, and the node that it describes. gcc builds it;
without a compiler its tests are skipped. Its state is a file: GPUs, MIG layouts, processes, errors by
function and device, and XID events. It logs its calls."""
