"""The policy for every rendered manifest: one function per rule, each yielding its violations."""

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
    """Every violation of a rule, in words; nothing for a manifest that may be shipped."""
    return [broken for rule in RULES for broken in rule(objects)]
