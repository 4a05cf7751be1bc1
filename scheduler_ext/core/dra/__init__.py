"""Dynamic Resource Allocation: the devices that DRA drivers publish, and the claims that hold them.
`core/node` adds them to the GPUs of a node."""
