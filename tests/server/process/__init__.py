"""The product's server as a process: start-up, signals, ports, TLS renewal, hostile clients."""
