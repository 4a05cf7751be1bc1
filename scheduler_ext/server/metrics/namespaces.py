"""The namespaces that metrics name: a bounded number."""

from collections import Counter
from collections.abc import Iterable, Mapping

# The namespaces with a label value of their own: those with the largest amounts. The name for all others is
# not a valid namespace.
MAX_NAMESPACES = 1000
OTHERS = "_others"


def named(largest_first: Iterable[str]) -> dict[str, str]:
    """The label values of the namespaces that keep their name."""
    return {name: name for name, _ in zip(largest_first, range(MAX_NAMESPACES), strict=False)}


def largest_namespaces(amounts: Mapping[str, int]) -> Counter[str]:
    """The amounts of the largest namespaces, and the sum of the others."""
    kept = named(sorted(amounts, key=lambda name: (-amounts[name], name)))
    found: Counter[str] = Counter()
    for name, amount in amounts.items():
        found[kept.get(name, OTHERS)] += amount
    return found
