"""One node: what it has, what its pods hold, and the state that decisions compare."""
