"""Dynamic Resource Allocation: the devices that DRA drivers publish, and the claims that hold them."""
