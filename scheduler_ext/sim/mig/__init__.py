"""MIG instances that come and go on many equal GPUs, and how much of what is asked a policy can give."""
