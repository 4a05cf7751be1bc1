"""The node agent on a node that tests describe: NVML, kubelet and processes are fakes, the API server is
`tests/cluster/api`."""
