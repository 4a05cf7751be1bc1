"""The agent's reading of NVML, on the mock library."""
