"""Memory of a process that runs for weeks: measures against its growth."""

import contextlib
import ctypes
import gc

# malloc.h of glibc.
_M_ARENA_MAX = -8


def share_one_arena() -> None:
    """Have all threads allocate from one heap; for a process that has no other thread yet. glibc gives
    threads their own heaps, up to eight for each core. Memory that one thread frees is not available to
    another, and dozens of alternating threads keep many times the memory that they need at once. Python runs
    one thread at a time, so they gain nothing from own heaps. Other C libraries have none."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def settle_heap() -> None:
    """Free unreachable objects, and exempt the rest from garbage collection, after much was replaced. All
    reachable objects count as living until the next call. Freezing without collecting would keep garbage
    forever, and without thawing, the cycles of objects that were frozen before. Takes a tenth of a second or
    more for 5,000 nodes, while no other thread runs."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
