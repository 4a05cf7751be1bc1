"""How small a cluster is. Which models stay free matters more to those who run a few nodes than the last per
cent of allocation, which scores gain from a forecast of many pods."""

# A cluster is small up to so many nodes with GPUs, and large from so many on.
_SMALL, _LARGE = 10, 30


def smallness(gpu_nodes: int) -> float:
    """1 for a small cluster, 0 for a large one, evenly between."""
    return min(max((_LARGE - gpu_nodes) / (_LARGE - _SMALL), 0.0), 1.0)
