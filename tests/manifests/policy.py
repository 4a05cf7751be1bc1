"""The policy that every rendered manifest is held to: one function per rule, each yielding what breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tests.manifests import configuration_rules, pod_rules, rights_rules, share_rules
from tests.manifests.objects import Json

RULES: tuple[Callable[[Sequence[Json]], Iterator[str]], ...] = (
    *configuration_rules.RULES,
    *pod_rules.RULES,
    *rights_rules.RULES,
    *share_rules.RULES,
)


def violations(objects: Sequence[Json]) -> list[str]:
    """Everything that breaks a rule, in words; nothing for what may be shipped."""
    return [broken for rule in RULES for broken in rule(objects)]
