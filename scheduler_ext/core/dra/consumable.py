"""The amounts that a claim takes of a device's capacities (consumable_capacity.go of
k8s.io/dynamic-resource-allocation)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

# How many claims a device serves that limits them by none of its capacities.
MANY: Final = 2**31


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """The amounts of a capacity that claims can have, in thousandths: `default` without a request; others are
    rounded up to `minimum` and steps above it, or to one of `values`, ascending."""

    default: int | None = None
    minimum: int | None = None
    maximum: int | None = None
    step: int | None = None
    values: tuple[int, ...] = ()

    def rounded(self, asked: int) -> int | None:
        """The amount that a claim takes; None if the policy allows none."""
        taken = asked
        if self.minimum is not None:
            taken = max(asked, self.minimum)
            if self.step:
                taken += -(taken - self.minimum) % self.step
        elif self.values:
            taken = next((value for value in self.values if asked <= value), asked)
        if taken == self.default:
            return taken
        too_much = self.maximum is not None and taken > self.maximum
        return None if too_much or (self.values and taken not in self.values) else taken


_ANY = RequestPolicy()


def taken_amounts(
    capacity: Mapping[str, int], policies: Mapping[str, RequestPolicy], asked: Mapping[str, int]
) -> dict[str, int] | None:
    """What a claim takes of each capacity of a device: without a request the default, otherwise all. None if
    the device can never give that."""
    if not asked.keys() <= capacity.keys():
        return None
    taken = {}
    for name, whole in capacity.items():
        policy = policies.get(name, _ANY)
        if name in asked:
            amount = policy.rounded(asked[name])
        else:
            amount = whole if policy.default is None else policy.default
        if amount is None or not 0 <= amount <= whole:
            return None
        taken[name] = amount
    return taken


def claims_served(capacity: Mapping[str, int], taken: Mapping[str, int], held: Mapping[str, int]) -> int:
    """How many more claims that each take so much a device serves beside what is held of it."""
    left = ((capacity[name] - held.get(name, 0)) // amount for name, amount in taken.items() if amount)
    return max(0, min(left, default=MANY))
