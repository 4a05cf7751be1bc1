"""The command line: what the commands of the kernel share, and these commands."""
