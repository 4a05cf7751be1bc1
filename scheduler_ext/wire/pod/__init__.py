"""A pod's manifest as a request: containers, amounts, claims and annotations, decoded once per object."""
