"""Claims and devices on a control plane with Dynamic Resource Allocation."""
