"""A pod's request: amounts, resource names, and the wishes in its annotations."""
