"""A pod's request: amounts, resource names, and the constraints in its annotations."""
